"""Group requests: which checks come first, which shard answers, how parts become one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.frontend import classic_group, consumer_group, offsets
from groupd.coordinator.core.frontend.groups import find_coordinator
from groupd.coordinator.core.offsets.refusals import refuse_fetch
from groupd.coordinator.core.queries import DescribeClassicGroup, DescribeConsumerGroup
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker, GroupRoute
from groupd.coordinator.runtime.gather import Gather
from groupd.coordinator.runtime.shard_state import ShardState
from groupd.coordinator.runtime.transactions import txn_offset_commit
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
)
from groupd.protocol.messages.data import ProduceRequest
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsReply,
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListedGroup,
    ListGroupsReply,
    ListGroupsRequest,
)
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)


def group_routes() -> Mapping[type, GroupRoute]:
    """Request type -> how the broker answers it."""
    return {
        ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
        ConsumerGroupDescribeRequest: _consumer_describe,
        JoinGroupRequest: _join,
        SyncGroupRequest: _sync,
        HeartbeatRequest: _heartbeat,
        LeaveGroupRequest: _leave,
        OffsetCommitRequest: _offset_commit,
        OffsetFetchRequest: _offset_fetch,
        OffsetDeleteRequest: _offset_delete,
        TxnOffsetCommitRequest: txn_offset_commit,
        FindCoordinatorRequest: _find_coordinator,
        DescribeGroupsRequest: _describe_groups,
        ListGroupsRequest: _list_groups,
        DeleteGroupsRequest: _delete_groups,
    }


LISTED_AT_ONCE = 1000
"""Groups of ListGroups, some two milliseconds."""

Failure = Callable[[Any, ErrorCode, "str | None"], Any]


def failure_for(request: Any, default: Failure) -> Failure:
    """How a request fails: the classic group APIs echo member ids, and look different while a
    shard loads (spec: classic group, J1-J5, S4, 2.3); a produce with acks=0 has no reply."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        return lambda req, code, message: None
    special = _CLASSIC_FAILURES.get(type(request))
    if special is None:
        return default
    return lambda req, code, message: special(req, ApiError(code, message))


_CLASSIC_FAILURES: Mapping[type, Callable[[Any, ApiError], Any]] = {
    JoinGroupRequest: answers.join_failure,
    SyncGroupRequest: answers.sync_failure,
    HeartbeatRequest: answers.heartbeat_failure,
    LeaveGroupRequest: answers.leave_failure,
}


# One group ----------------------------------------------------------------------------------


def _consumer_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> None:
    consumer_group.check_access(broker.config, context, request)
    if not broker.started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    consumer_group.check_request(broker.config, context, request)
    broker.to_shard(context, request, request.group_id)


def _join(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> None:
    try:
        classic_group.check_join(broker.config, context, request, started=broker.started)
    except ApiError as error:
        broker.reply(context, answers.join_refusal(request, error))
        return
    broker.to_shard(context, request, request.group_id)


def _sync(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> None:
    classic_group.check_sync(broker.config, context, request, started=broker.started)
    broker.to_shard(context, request, request.group_id)


def _heartbeat(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> None:
    classic_group.check_heartbeat(broker.config, context, request, started=broker.started)
    broker.to_shard(context, request, request.group_id)


def _leave(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> None:
    classic_group.check_leave(broker.config, context, request, started=broker.started)
    broker.to_shard(context, request, request.group_id)


def _offset_commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> None:
    kept, finish = offsets.admit_commit(context, request, broker.image)
    _admitted(broker, context, request.group_id, kept, finish)


def _offset_delete(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> None:
    kept, finish = offsets.admit_delete(context, request, broker.image)
    _admitted(broker, context, request.group_id, kept, finish)


def _admitted(
    broker: Broker,
    context: RequestContext,
    group_id: str,
    kept: Any | None,
    finish: Callable[[Any], Any],
) -> None:
    """Ask the shard for what the front end did not answer itself, and merge."""
    if kept is None:
        broker.reply(context, finish(None))
        return
    if finish is offsets.as_answered:
        broker.to_shard(context, kept, group_id)
        return
    broker.ask(
        context,
        broker.shard_of(group_id),
        kept,
        broker.failure_of(context),
        lambda reply: broker.reply(context, finish(reply)),
    )


def _find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> None:
    broker.reply(context, find_coordinator(context, request, broker.node_for))


# Many groups --------------------------------------------------------------------------------


def _offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> None:
    def finish(groups: list[FetchedGroup]) -> None:
        broker.reply(context, OffsetFetchReply(tuple(groups)))

    if len(request.groups) == 1:
        (group,) = request.groups
        _fetch_one(broker, context, group, lambda fetched: finish([fetched]))
        return
    gather = Gather(len(request.groups), finish)
    for index, group in enumerate(request.groups):
        _fetch_one(broker, context, group, gather.part(index))


def _fetch_one(
    broker: Broker,
    context: RequestContext,
    group: OffsetFetchGroup,
    receive: Callable[[FetchedGroup], None],
) -> None:
    kept, finish = offsets.admit_fetch(context, group, broker.image)
    if kept is None:
        receive(finish(None))
        return
    version = context.api_version
    broker.ask(
        context,
        broker.shard_of(group.group_id),
        kept,
        lambda asked, code, _: refuse_fetch(asked, code, version),
        lambda fetched: receive(finish(fetched)),
    )


def _describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> None:
    asked = [
        DescribeClassicGroup(group, request.include_authorized_operations)
        for group in request.groups
    ]
    _per_group(
        broker,
        context,
        asked,
        lambda one, code, message: DescribedGroup(one.group_id, code, message),
        DescribeGroupsReply,
    )


def _consumer_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> None:
    refused, asked = [], []
    for group in request.group_ids:
        refusal = consumer_group.check_describe(broker.config, context, group)
        if refusal is not None:
            refused.append(refusal)
        else:
            asked.append(DescribeConsumerGroup(group, request.include_authorized_operations))
    _per_group(
        broker,
        context,
        asked,
        lambda one, code, message: DescribedConsumerGroup(one.group_id, code, message),
        lambda found: ConsumerGroupDescribeReply((*refused, *found)),
    )


def _per_group(
    broker: Broker,
    context: RequestContext,
    asked: list[Any],
    failure: Failure,
    make_reply: Callable[[tuple[Any, ...]], Any],
) -> None:
    """Ask each group's shard; the answers in the order of the questions."""
    gather = Gather(len(asked), lambda parts: broker.reply(context, make_reply(tuple(parts))))
    for index, one in enumerate(asked):
        shard = broker.shard_of(one.group_id)
        broker.ask(context, shard, one, failure, gather.part(index))


def _list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> None:
    """Every shard that serves; a loading one fails the whole call (both group specs). Where there
    are many groups, others have their turn between two shards; each shard shows one moment, as in
    Kafka, where shards are asked side by side."""
    if not broker.started:
        broker.reply(context, ListGroupsReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    if any(shard.state is ShardState.LOADING for shard in broker.shards):
        broker.reply(context, ListGroupsReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    serving = [shard for shard in broker.shards if shard.state is ShardState.ACTIVE]

    def finish(parts: list[ListGroupsReply]) -> None:
        failed = next((part.error for part in parts if part.error), None)
        if failed is not None:
            broker.reply(context, ListGroupsReply(failed))
            return
        broker.reply(context, ListGroupsReply(groups=_by_id([part.groups for part in parts])))

    gather = Gather(len(serving), finish)

    def ask(index: int) -> int:
        """How many groups that was about."""
        shard = serving[index]
        broker.ask(
            context,
            shard,
            request,
            lambda _, code, __: ListGroupsReply(code),
            gather.part(index),
        )
        return len(shard.shard.state.groups)

    listed = index = 0
    while index < len(serving) and listed < LISTED_AT_ONCE:
        listed += ask(index)
        index += 1
    if index < len(serving):
        broker.run(context, _ask_in_turns(ask, range(index, len(serving))), request)


def _by_id(listed: list[Sequence[ListedGroup]]) -> Sequence[ListedGroup]:
    """The groups of all shards by id; each shard has listed its own in that order."""
    count = sum(len(groups) for groups in listed)
    return Lazily(count, lambda: merge(*listed, key=attrgetter("group_id")))


async def _ask_in_turns(ask: Callable[[int], int], rest: Iterable[int]) -> None:
    """The number of groups sets the pace, not time, so that a recording can be replayed."""
    listed = LISTED_AT_ONCE
    for index in rest:
        if listed >= LISTED_AT_ONCE:
            await asyncio.sleep(0)
            listed = 0
        listed += ask(index)


def _delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> None:
    """One question per shard with its groups; duplicates are asked once."""
    wanted = tuple(dict.fromkeys(request.group_ids))
    by_shard: dict[int, list[str]] = {}
    for group in wanted:
        by_shard.setdefault(broker.shard_of(group).partition, []).append(group)

    def finish(parts: Iterable[DeleteGroupsReply]) -> None:
        results = {result.group_id: result for part in parts for result in part.results}
        broker.reply(context, DeleteGroupsReply(tuple(results[group] for group in wanted)))

    gather = Gather(len(by_shard), finish)
    for index, (partition, groups) in enumerate(sorted(by_shard.items())):
        broker.ask(
            context,
            broker.places[partition],
            DeleteGroupsRequest(tuple(groups)),
            _delete_failure,
            gather.part(index),
        )


def _delete_failure(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsReply:
    return DeleteGroupsReply(
        tuple(DeletedGroup(group, code, message) for group in request.group_ids)
    )
