"""How requests about many groups, members or topics are handled: DescribeGroups,
ConsumerGroupDescribe, ShareGroupDescribe, ListGroups, DeleteGroups, LeaveGroup, and changes of the
start offsets of share groups. An id that is in a request several times is answered once,
at its first position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from groupd.coordinator.core.frontend import groups, share_groups
from groupd.coordinator.core.partitioning import hash_work
from groupd.coordinator.core.shard_requests import (
    DeleteGroup,
    DeleteSomeOffsets,
    DescribeClassicGroup,
    DescribeConsumerGroup,
    DescribeShareGroup,
    ListSomeGroups,
)
from groupd.coordinator.core.slices import (
    Steps,
    distinct_in_steps,
    mapped_in_steps,
    spans,
)
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.dispatch import PIECE, ask_admitted, ask_in_pieces, to_group
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Callback, Gather, Part, no_reply
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import LeaveGroupReply, LeaveGroupRequest
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
)
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsReply,
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsReply,
    ListGroupsRequest,
)
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribedShareGroup,
    ShareGroupDescribeReply,
    ShareGroupDescribeRequest,
)
from groupd.protocol.wire.registry import Failure

GroupRefusal = TypeVar("GroupRefusal")

GROUPS_AT_ONCE = 50
"""How many groups are asked about in one step: each is a question to its shard."""
LISTED_AT_ONCE = 300
MEMBERS_AT_ONCE = 50
"""How many members leave in one piece."""


# Describe -----------------------------------------------------------------------------------


def describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> None:
    with_operations = request.include_authorized_operations
    _describe(
        broker,
        context,
        request.groups,
        partial(groups.check_describe, context),
        lambda group: DescribeClassicGroup(group, with_operations),
        DescribedGroup,
        DescribeGroupsReply,
    )


def describe_consumer_groups(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> None:
    with_operations = request.include_authorized_operations
    _describe(
        broker,
        context,
        request.group_ids,
        partial(groups.check_consumer_describe, broker.config, context),
        lambda group: DescribeConsumerGroup(group, with_operations),
        DescribedConsumerGroup,
        ConsumerGroupDescribeReply,
    )


def describe_share_groups(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> None:
    with_operations = request.include_authorized_operations
    _describe(
        broker,
        context,
        request.group_ids,
        partial(share_groups.check_describe, broker.config, context),
        lambda group: DescribeShareGroup(group, with_operations),
        DescribedShareGroup,
        ShareGroupDescribeReply,
    )


def _describe(
    broker: Broker,
    context: RequestContext,
    group_ids: Sequence[str],
    check: Callable[[str], Any],
    question: Callable[[str], Any],
    described: Callable[[str, ErrorCode, str | None], Any],
    reply: Callable[[tuple[Any, ...]], Any],
) -> None:
    """Asks the shards of those groups that `check` does not refuse. `question`: for the shard of a
    group. `described`: makes the entry of a group whose shard refuses."""

    def failure(one: Any, code: ErrorCode, message: str | None) -> Any:
        return described(one.group_id, code, message)

    def steps() -> Steps[None]:
        ids, refused = yield from _checked(group_ids, check)
        asked = yield from mapped_in_steps(question, ids)
        yield from _ask_groups(
            broker, context, asked, failure, lambda parts: reply((*refused, *parts))
        )

    broker.work.answer(context.token, steps())


def _checked(
    group_ids: Sequence[str], check: Callable[[str], GroupRefusal | None]
) -> Steps[tuple[list[str], list[GroupRefusal]]]:
    """Returns the groups that may be asked about, and the refusals for the others. Each group is in
    there once."""
    distinct = yield from distinct_in_steps(group_ids)
    refusals = yield from mapped_in_steps(check, distinct)
    checked = list(zip(distinct, refusals, strict=True))
    return (
        [group for group, refusal in checked if refusal is None],
        [refusal for refusal in refusals if refusal is not None],
    )


def _ask_groups(
    broker: Broker,
    context: RequestContext,
    asked: Sequence[Any],
    failure: Failure,
    reply: Callable[[list[Any]], Any],
) -> Steps[None]:
    """Returns the answers of the groups' shards, in the order of the questions."""
    waiter = context.token
    gather = Gather(waiter, len(asked), reply)
    room = PIECE
    for index, one in enumerate(asked):
        if room <= 0:
            yield
            room = PIECE
            if waiter not in broker.waiting:
                return  # the client is gone
        room -= PIECE // GROUPS_AT_ONCE + hash_work(one.group_id)
        broker.ask(broker.shard_of(one.group_id), context, Part(one, failure, gather, index))


# List ---------------------------------------------------------------------------------------


def list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> None:
    """List the groups of every shard that serves. A shard that is loading fails the whole call
    (docs/spec/classic-group.md#6, docs/spec/consumer-group.md#9). With many groups, other requests
    are served in between: a group that is created or deleted meanwhile may be listed or not."""
    waiter = context.token
    if not broker.started:
        waiter.answer(ListGroupsReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    elif CoordinatorState.LOADING in broker.served.states:
        waiter.answer(ListGroupsReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    else:
        broker.work.answer(waiter, _list(broker, context, request))


def _list(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> Steps[None]:
    waiter = context.token
    states = yield from distinct_in_steps(request.states_filter)
    types = yield from distinct_in_steps(request.types_filter)
    wanted_states = frozenset((yield from mapped_in_steps(_plain, states)))
    wanted_types = frozenset((yield from mapped_in_steps(_plain, types)))
    asked = []
    for shard in broker.shards:
        if shard.state is CoordinatorState.ACTIVE:
            ids = tuple(shard.shard.state.groups)
            asked += [(shard, ids[span]) for span in spans(len(ids), LISTED_AT_ONCE)]
    gather = Gather(waiter, len(asked), partial(_listed, broker, [shard for shard, _ in asked]))
    listed = 0
    for index, (shard, ids) in enumerate(asked):
        if listed + len(ids) > LISTED_AT_ONCE:
            yield
            listed = 0
            if waiter not in broker.waiting:
                return  # the client is gone
        listed += 10 + len(ids)
        question = ListSomeGroups(ids, wanted_states, wanted_types)
        broker.ask(shard, context, Part(question, _list_failure, gather, index))


def _plain(name: str) -> str:
    return name.strip().lower()


def _listed(
    broker: Broker, shards: Sequence[GroupLogShard], parts: list[ListGroupsReply]
) -> ListGroupsReply:
    """Returns all groups, sorted by id; each part is sorted already. The groups of a shard that
    another node has taken over meanwhile are listed by that node."""
    listed: list[Sequence[ListedGroup]] = []
    for shard, part in zip(shards, parts, strict=True):
        if not part.error:
            listed.append(part.groups)
        elif shard.partition in broker.served.by_number:
            return ListGroupsReply(part.error)
    count = sum(map(len, listed))
    return ListGroupsReply(groups=Lazily(count, lambda: merge(*listed, key=attrgetter("group_id"))))


def _list_failure(_: Any, code: ErrorCode, __: str | None) -> ListGroupsReply:
    return ListGroupsReply(code)


# Delete -------------------------------------------------------------------------------------


def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> None:
    broker.work.answer(context.token, _delete(broker, context, request))


def _delete(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> Steps[None]:
    """Delete groups. A group with many offsets first loses most of them, in pieces, and is then
    deleted with the rest."""
    check = partial(groups.check_delete, context)
    wanted, refused = yield from _checked(request.group_ids, check)
    gather = Gather(context.token, len(wanted), partial(_deleted, refused))
    room = PIECE
    for index, group in enumerate(wanted):
        if room <= 0:
            yield
            room = PIECE
        shard = broker.shard_of(group)
        offsets = sum(map(len, shard.topics_of(group).values()))
        for _ in range(offsets // PIECE):
            yield
            broker.ask(shard, context, Callback(DeleteSomeOffsets(group, PIECE), no_reply, _heard))
            room = 0
        room -= 10 + offsets % PIECE + hash_work(group)
        part = Part(DeleteGroup(group), _delete_failure, gather, index)
        broker.ask(shard, context, part)


def _heard(_: None) -> None:
    """Ignores the answer of a piece: only the answer to the `DeleteGroup` after the pieces
    counts."""


def _deleted(refused: list[DeletedGroup], parts: list[DeletedGroup]) -> DeleteGroupsReply:
    return DeleteGroupsReply((*parts, *refused))


def _delete_failure(request: DeleteGroup, code: ErrorCode, _: str | None) -> DeletedGroup:
    """The reply has no message, as in Kafka."""
    return DeletedGroup(request.group_id, code)


# Leave --------------------------------------------------------------------------------------


def leave_group(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> None:
    if len(request.members) <= MEMBERS_AT_ONCE:
        to_group(broker, context, request)
        return
    some = [request.members[span] for span in spans(len(request.members), MEMBERS_AT_ONCE)]
    requests = [replace(request, members=members) for members in some]
    steps = ask_in_pieces(broker, context, requests, to_group, _left)
    broker.work.answer(context.token, steps)


def _left(parts: list[LeaveGroupReply]) -> Steps[LeaveGroupReply]:
    error = next((part.error for part in parts if part.error), None)
    if error is not None:
        return LeaveGroupReply(error)
    return LeaveGroupReply(members=tuple(chain.from_iterable([part.members for part in parts])))
    yield


# Start offsets of share groups --------------------------------------------------------------


def alter_share_offsets(
    broker: Broker, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> None:
    ask_admitted(broker, context, *share_groups.admit_alteration(context, request))


def delete_share_offsets(
    broker: Broker, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> None:
    ask_admitted(broker, context, *share_groups.admit_deletion(context, request))
