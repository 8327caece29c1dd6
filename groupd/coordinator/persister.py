"""The persister of share groups: how to reach the durable state of share-partitions (KIP-932). The
share coordinator keeps that state; in a cluster it may be on another node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareState,
    ShareStateReply,
    ShareStateResult,
    ShareStateSummary,
    ShareStateTopic,
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


# Requests and replies as lists of partitions ----------------------------------------------------

AskedPartition = tuple[TopicId, Any]
"""A topic and the entry for one of its partitions in a request."""

_ENTRIES: dict[type, type] = {
    ReadShareGroupStateRequest: ReadShareState,
    ReadShareGroupStateSummaryRequest: ShareStateSummary,
}


def is_empty(request: ShareStateRequest) -> bool:
    """Whether the request asks for nothing, and so is answered with an empty reply."""
    return not (
        request.group_id and request.topics and all(map(attrgetter("partitions"), request.topics))
    )


def asked_partitions(request: ShareStateRequest) -> list[AskedPartition]:
    return [(topic.topic_id, asked) for topic in request.topics for asked in topic.partitions]


def with_partitions(
    request: ShareStateRequest, partitions: Iterable[AskedPartition]
) -> ShareStateRequest:
    """Returns the same request for these partitions only."""
    topics = [
        ShareStateTopic(topic_id, [asked for _, asked in some])
        for topic_id, some in groupby(partitions, itemgetter(0))
    ]
    return type(request)(request.group_id, topics)


def reply_of(request: ShareStateRequest, entries: Sequence[Any]) -> ShareStateReply:
    """Returns the reply with these entries, one for each partition of the request in its order."""
    topics, at = [], 0
    for topic in request.topics:
        end = at + len(topic.partitions)
        topics.append(ShareStateTopic(topic.topic_id, entries[at:end]))
        at = end
    return ShareStateReply(topics)


def entries_of(reply: ShareStateReply) -> list[Any]:
    """Returns the entries of a reply, which say so themselves if they are errors."""
    return list(chain.from_iterable(map(attrgetter("partitions"), reply.topics)))


def first_error(reply: ShareStateReply) -> ErrorCode:
    """Returns the first error in a reply; NONE if there is none."""
    return next((one.error for one in entries_of(reply) if one.error), ErrorCode.NONE)


def refused(request_type: type, asked: Any, code: ErrorCode, message: str | None = None) -> Any:
    """Returns the entry of a reply that refuses one partition of a request. `asked`: its entry in
    the request."""
    number = asked if isinstance(asked, int) else asked.partition
    return _ENTRIES.get(request_type, ShareStateResult)(number, code, message)
