"""The way of every group request: what is checked, who answers it, how it fails.

`ROUTES` is the one table. A request for one group goes to the shard of that group. A request about
many groups is split into questions to shards (`Broker.ask`), whose answers a `Gather` merges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import merge
from operator import attrgetter
from typing import Any

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.frontend import groups, offsets
from groupd.coordinator.core.offsets.refusals import refuse_fetch
from groupd.coordinator.core.queries import DescribeClassicGroup, DescribeConsumerGroup
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker, Route, no_reply
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.transactions import txn_offset_commit
from groupd.coordinator.runtime.waiting import Failure, Gather, Part
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

LISTED_AT_ONCE = 1000
"""Groups that ListGroups takes before others have their turn: about two milliseconds."""


def to_group(broker: Broker, context: RequestContext, request: Any) -> None:
    """The shard of the request's group answers."""
    if broker.started:
        broker.shard_of(request.group_id).handle(context, request)
    else:
        context.token.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)


# One group ----------------------------------------------------------------------------------


def _offset_commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> None:
    _admitted(broker, context, *offsets.admit_commit(context, request, broker.image))


def _offset_delete(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> None:
    _admitted(broker, context, *offsets.admit_delete(context, request, broker.image))


def _admitted(
    broker: Broker, context: RequestContext, kept: Any | None, finish: offsets.Finish | None
) -> None:
    """Ask the shard for what the front end did not answer itself, and merge."""
    waiter = context.token
    if finish is None:
        to_group(broker, context, kept)
    elif kept is None:
        waiter.answer(finish(None))
    else:
        gather = Gather(waiter, 1, lambda parts: finish(parts[0]))
        part = Part(kept, waiter.failure, gather, 0)
        broker.ask(broker.shard_of(kept.group_id), context, part)


def _find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> None:
    context.token.answer(groups.find_coordinator(context, request, broker.node_for))


# Many groups --------------------------------------------------------------------------------


def _offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> None:
    admitted = [offsets.admit_fetch(context, group, broker.image) for group in request.groups]

    def reply(parts: list[FetchedGroup | None]) -> OffsetFetchReply:
        finished = zip(admitted, parts, strict=True)
        return OffsetFetchReply(tuple([finish(part) for (_, finish), part in finished]))

    gather = Gather(context.token, len(admitted), reply)
    failure = partial(_fetch_failure, context.api_version)
    for index, (kept, _) in enumerate(admitted):
        if kept is None:
            gather.add(index, None)
        else:
            part = Part(kept, failure, gather, index)
            broker.ask(broker.shard_of(kept.group_id), context, part)


def _fetch_failure(
    version: int, request: OffsetFetchGroup, code: ErrorCode, _: str | None
) -> FetchedGroup:
    return refuse_fetch(request, code, version)


def _describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> None:
    with_operations = request.include_authorized_operations
    asked = [DescribeClassicGroup(group, with_operations) for group in request.groups]

    def failure(one: Any, code: ErrorCode, message: str | None) -> DescribedGroup:
        return DescribedGroup(one.group_id, code, message)

    _per_group(broker, context, asked, failure, lambda parts: DescribeGroupsReply(tuple(parts)))


def _consumer_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> None:
    refused, asked = [], []
    for group in request.group_ids:
        refusal = groups.check_describe(broker.config, context, group)
        if refusal is not None:
            refused.append(refusal)
        else:
            asked.append(DescribeConsumerGroup(group, request.include_authorized_operations))

    def failure(one: Any, code: ErrorCode, message: str | None) -> DescribedConsumerGroup:
        return DescribedConsumerGroup(one.group_id, code, message)

    def reply(parts: list[DescribedConsumerGroup]) -> ConsumerGroupDescribeReply:
        return ConsumerGroupDescribeReply((*refused, *parts))

    _per_group(broker, context, asked, failure, reply)


def _per_group(
    broker: Broker,
    context: RequestContext,
    asked: Sequence[Any],
    failure: Failure,
    reply: Callable[[list[Any]], Any],
) -> None:
    """Ask each group's shard; the answers in the order of the questions."""
    gather = Gather(context.token, len(asked), reply)
    for index, one in enumerate(asked):
        broker.ask(broker.shard_of(one.group_id), context, Part(one, failure, gather, index))


def _list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> None:
    """Every shard that serves; one that is loading fails the whole call
    (docs/spec/classic-group.md#6, docs/spec/consumer-group.md#9). With many groups, other requests
    are served between two shards. Each shard shows one moment, as in Kafka, where the shards are
    asked side by side."""
    waiter = context.token
    if not broker.started:
        waiter.answer(ListGroupsReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    if any(shard.state is CoordinatorState.LOADING for shard in broker.shards):
        waiter.answer(ListGroupsReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    serving = [shard for shard in broker.shards if shard.state is CoordinatorState.ACTIVE]
    gather = Gather(waiter, len(serving), _listed)

    def ask(index: int) -> int:
        """How many groups that was about."""
        shard = serving[index]
        broker.ask(shard, context, Part(request, _list_failure, gather, index))
        return len(shard.shard.state.groups)

    listed = index = 0
    while index < len(serving) and listed < LISTED_AT_ONCE:
        listed += ask(index)
        index += 1
    if index < len(serving):
        broker.run(waiter, _ask_in_turns(ask, range(index, len(serving))))


def _listed(parts: list[ListGroupsReply]) -> ListGroupsReply:
    """The groups of all shards by id; each shard has listed its own in that order."""
    failed = next((part.error for part in parts if part.error), None)
    if failed is not None:
        return ListGroupsReply(failed)
    listed: list[Sequence[ListedGroup]] = [part.groups for part in parts]
    count = sum(map(len, listed))
    return ListGroupsReply(groups=Lazily(count, lambda: merge(*listed, key=attrgetter("group_id"))))


def _list_failure(_: Any, code: ErrorCode, __: str | None) -> ListGroupsReply:
    return ListGroupsReply(code)


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

    def reply(parts: list[DeleteGroupsReply]) -> DeleteGroupsReply:
        results = {result.group_id: result for part in parts for result in part.results}
        return DeleteGroupsReply(tuple(results[group] for group in wanted))

    gather = Gather(context.token, len(by_shard), reply)
    for index, (partition, of_shard) in enumerate(sorted(by_shard.items())):
        question = DeleteGroupsRequest(tuple(of_shard))
        part = Part(question, _delete_failure, gather, index)
        broker.ask(broker.places[partition], context, part)


def _delete_failure(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsReply:
    return DeleteGroupsReply(
        tuple(DeletedGroup(group, code, message) for group in request.group_ids)
    )


# The table ----------------------------------------------------------------------------------


def _of_error(make_reply: Callable[[Any, ApiError], Any]) -> Failure:
    """A `Failure` of the replies of `groupd.coordinator.core.classic_group.answers`."""
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
    LeaveGroupRequest: Route(groups.check_member, to_group, _of_error(answers.leave_failure)),
    OffsetCommitRequest: Route(None, _offset_commit),
    OffsetDeleteRequest: Route(None, _offset_delete),
    TxnOffsetCommitRequest: Route(None, txn_offset_commit),
    OffsetFetchRequest: Route(None, _offset_fetch),
    FindCoordinatorRequest: Route(None, _find_coordinator),
    ConsumerGroupDescribeRequest: Route(None, _consumer_describe),
    DescribeGroupsRequest: Route(None, _describe_groups),
    ListGroupsRequest: Route(None, _list_groups),
    DeleteGroupsRequest: Route(None, _delete_groups),
}
"""Request type -> its route. What is not in here is for the data plane."""


def failure_for(request: Any, default: Failure) -> Failure:
    """How a request fails, outside of a broker: see `Route`. `default`: of its API."""
    route = ROUTES.get(type(request))
    if route is not None and route.failure is not None:
        return route.failure
    return no_reply if isinstance(request, ProduceRequest) and request.acks == 0 else default
