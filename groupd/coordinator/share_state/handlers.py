"""The requests of other brokers about the state of share-partitions (docs/spec/share-group.md#1.4
and #3). They need CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    DataHandler,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.persister import Persister, ShareStateRequest
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ShareStateReply,
    WriteShareGroupStateRequest,
)


def share_state_handlers(local: Persister) -> Mapping[type, DataHandler]:
    """Returns the handlers by the types of requests. `local`: the share coordinator of this node.
    What it does not serve is not passed on to another node."""

    async def handle(context: RequestContext, request: ShareStateRequest) -> ShareStateReply:
        if not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return await local.ask(request)

    return dict.fromkeys(
        (
            InitializeShareGroupStateRequest,
            ReadShareGroupStateRequest,
            WriteShareGroupStateRequest,
            DeleteShareGroupStateRequest,
            ReadShareGroupStateSummaryRequest,
        ),
        handle,
    )
