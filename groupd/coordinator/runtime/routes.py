"""How every group request is handled: what is checked, what answers it, how it fails.

`ROUTES` is the one table. A request for one group goes to the shard of that group. A request about
many groups or partitions is split into questions to shards (`Broker.ask`), whose answers a `Gather`
merges: `group_routes`, `offset_routes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.frontend import groups, share_groups
from groupd.coordinator.runtime import group_routes, offset_routes
from groupd.coordinator.runtime.broker import Route
from groupd.coordinator.runtime.dispatch import to_group
from groupd.coordinator.runtime.find_coordinator import find_coordinator
from groupd.coordinator.runtime.transactions import txn_offset_commit
from groupd.protocol.errors import ApiError
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from groupd.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from groupd.protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from groupd.protocol.wire.registry import Failure


def _of_error(make_reply: Callable[[Any, ApiError], Any]) -> Failure:
    """Returns a `Failure` made of a function of `groupd.coordinator.core.classic_group.answers`,
    which takes the error as an exception."""
    return lambda request, code, message: make_reply(request, ApiError(code, message))


ROUTES: Mapping[type, Route] = {
    ConsumerGroupHeartbeatRequest: Route(groups.check_consumer_heartbeat, to_group),
    JoinGroupRequest: Route(
        groups.check_join,
        to_group,
        _of_error(answers.join_failure),
        _of_error(answers.join_refusal),
    ),
    SyncGroupRequest: Route(groups.check_sync, to_group, _of_error(answers.sync_failure)),
    HeartbeatRequest: Route(groups.check_member, to_group, _of_error(answers.heartbeat_failure)),
    LeaveGroupRequest: Route(
        groups.check_member, group_routes.leave_group, _of_error(answers.leave_failure)
    ),
    OffsetCommitRequest: Route(None, offset_routes.offset_commit),
    OffsetDeleteRequest: Route(None, offset_routes.offset_delete),
    TxnOffsetCommitRequest: Route(None, txn_offset_commit),
    OffsetFetchRequest: Route(None, offset_routes.offset_fetch),
    FindCoordinatorRequest: Route(None, find_coordinator),
    ConsumerGroupDescribeRequest: Route(None, group_routes.describe_consumer_groups),
    DescribeGroupsRequest: Route(None, group_routes.describe_groups),
    ShareGroupHeartbeatRequest: Route(share_groups.check_heartbeat, to_group),
    ShareGroupDescribeRequest: Route(None, group_routes.describe_share_groups),
    AlterShareGroupOffsetsRequest: Route(
        share_groups.check_alter_offsets, group_routes.alter_share_offsets
    ),
    DeleteShareGroupOffsetsRequest: Route(
        share_groups.check_delete_offsets, group_routes.delete_share_offsets
    ),
    ListGroupsRequest: Route(None, group_routes.list_groups),
    DeleteGroupsRequest: Route(None, group_routes.delete_groups),
}
"""Request type -> its route. Requests of other types are for the data plane."""


def failure_for(request: Any, default: Failure) -> Failure:
    """Returns the `Failure` of a request, for use outside of a broker: see `Route`. `default`: the
    failure of its API."""
    route = ROUTES.get(type(request))
    return default if route is None or route.failure is None else route.failure
