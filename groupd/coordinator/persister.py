"""The persister of share groups: how to reach the durable state of share-partitions (KIP-932). The
share coordinator keeps that state; in a cluster it may be on another node.
"""

from __future__ import annotations

from typing import Protocol

from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ShareStateReply,
    WriteShareGroupStateRequest,
)

ShareStateRequest = (
    InitializeShareGroupStateRequest
    | ReadShareGroupStateRequest
    | WriteShareGroupStateRequest
    | DeleteShareGroupStateRequest
    | ReadShareGroupStateSummaryRequest
)


class Persister(Protocol):
    """Keeps the state of share-partitions."""

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        """Answers each partition of the request with an entry of its own, in the order of the
        request. What was written is durable by then. An error is in the entry, it is not raised:
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR if it was not
        possible for some time (docs/spec/share-group.md#3)."""
        ...
