"""How requests about offsets are handled: OffsetCommit, OffsetDelete and OffsetFetch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from groupd.coordinator.core.frontend import offsets
from groupd.coordinator.core.offsets.refusals import refuse_delete
from groupd.coordinator.core.partitioning import hash_work
from groupd.coordinator.core.slices import Steps, chunks, sorted_in_steps
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.dispatch import (
    PIECE,
    ask_admitted,
    ask_in_pieces,
    is_long,
    merge_topics,
    split_topics,
)
from groupd.coordinator.runtime.waiting import Gather, Part
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchRequest,
    failed_fetch,
)

OffsetsRequest = TypeVar("OffsetsRequest", OffsetCommitRequest, OffsetDeleteRequest)

_numbers = attrgetter("partitions.numbers")

TOPICS_AT_ONCE = 50
"""How many topics one piece has when a client fetches all offsets of a group."""


# Commit and delete --------------------------------------------------------------------------


def offset_commit(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> None:
    topics = request.topics
    if len(topics) > PIECE or len(topics) + sum(map(len, map(_numbers, topics))) > PIECE:
        broker.work.answer(context.token, _commit_in_pieces(broker, context, request))
    else:
        ask_admitted(broker, context, *offsets.admit_commit(context, request, broker.image))


def _pieces_of(request: OffsetsRequest) -> Steps[list[OffsetsRequest]]:
    """Returns requests that are each for some of the topics and partitions of `request`."""
    pieces = yield from split_topics(request.topics)
    return [replace(request, topics=topics) for topics in pieces]


def _commit_in_pieces(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> Steps[None]:
    requests = yield from _pieces_of(request)

    def merge(parts: list[OffsetCommitReply]) -> Steps[OffsetCommitReply]:
        return OffsetCommitReply((yield from merge_topics(part.topics for part in parts)))

    yield from ask_in_pieces(broker, context, requests, offset_commit, merge)


def offset_delete(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> None:
    if is_long(request.topics):
        broker.work.answer(context.token, _delete_in_pieces(broker, context, request))
    else:
        ask_admitted(broker, context, *offsets.admit_delete(context, request, broker.image))


def _delete_in_pieces(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> Steps[None]:
    requests = yield from _pieces_of(request)

    def merge(parts: list[OffsetDeleteReply]) -> Steps[OffsetDeleteReply]:
        error = next((part.error for part in parts if part.error), None)
        if error is not None:
            return refuse_delete(error)
        return OffsetDeleteReply(topics=(yield from merge_topics(part.topics for part in parts)))

    yield from ask_in_pieces(broker, context, requests, offset_delete, merge)


# Fetch --------------------------------------------------------------------------------------


def offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> None:
    """Fetch the offsets of groups, in the order of the request. A group that is there several times
    with null topics is answered once."""
    groups, token = request.groups, context.token
    if len(groups) != 1 or _is_long(broker, groups[0]):
        broker.work.answer(token, _fetch_in_pieces(broker, context, groups))
        return
    kept, finish = offsets.admit_fetch(context, groups[0], broker.image)
    token.failure = _failure
    ask_admitted(broker, context, kept, _alone if finish is None else partial(_alone_after, finish))


def _alone(fetched: FetchedGroup) -> OffsetFetchReply:
    return OffsetFetchReply((fetched,))


def _alone_after(finish: offsets.Finish, fetched: FetchedGroup) -> OffsetFetchReply:
    return OffsetFetchReply((finish(fetched),))


def _fetches(
    broker: Broker, context: RequestContext, count: int
) -> Callable[[int, OffsetFetchGroup], RequestContext]:
    """Returns a function (index, group) -> the context of that part of an OffsetFetch with `count`
    groups."""
    gather = Gather(context.token, count, lambda parts: OffsetFetchReply(tuple(parts)))

    def part(index: int, group: OffsetFetchGroup) -> RequestContext:
        return broker.part(context, Part(group, _failure, gather, index))

    return part


def _failure(request: OffsetFetchGroup, code: ErrorCode, _: str | None) -> FetchedGroup:
    return failed_fetch(request, code)


def _ask_fetch(broker: Broker, context: RequestContext, group: OffsetFetchGroup) -> None:
    ask_admitted(broker, context, *offsets.admit_fetch(context, group, broker.image))


def _is_long(broker: Broker, group: OffsetFetchGroup) -> bool:
    if group.topics is None:
        return len(broker.shard_of(group.group_id).topics_of(group.group_id)) > TOPICS_AT_ONCE
    return is_long(group.topics)


def _fetch_in_pieces(
    broker: Broker, context: RequestContext, groups: tuple[OffsetFetchGroup, ...]
) -> Steps[None]:
    wanted: list[OffsetFetchGroup] = []
    whole: set[str] = set()
    for chunk in chunks(groups, PIECE):
        if wanted:
            yield
        for group in chunk:
            if group.topics is None and group.group_id in whole:
                continue
            if group.topics is None:
                whole.add(group.group_id)
            wanted.append(group)
    part = _fetches(broker, context, len(wanted))
    room = PIECE
    for index, group in enumerate(wanted):
        if room <= 0:
            yield
            room = PIECE
        of_group = part(index, group)
        if _is_long(broker, group):
            yield
            yield from _fetch_group_in_pieces(broker, of_group, group)
            room = 0
        else:
            _ask_fetch(broker, of_group, group)
            room -= _weight(broker, group)


def _weight(broker: Broker, group: OffsetFetchGroup) -> int:
    """The cost of a short request about one group, counted in partitions."""
    hashing = hash_work(group.group_id)
    if group.topics is None:
        topics = broker.shard_of(group.group_id).topics_of(group.group_id)
        return 20 * (1 + len(topics)) + 3 * hashing
    return 20 + hashing + len(group.topics) + sum([len(topic.partitions) for topic in group.topics])


def _fetch_group_in_pieces(
    broker: Broker, context: RequestContext, group: OffsetFetchGroup
) -> Steps[None]:
    if group.topics is None:
        topics = broker.shard_of(group.group_id).topics_of(group.group_id)
        names = yield from sorted_in_steps(tuple(topics))
        parts = [replace(group, only=tuple(some)) for some in chunks(names, TOPICS_AT_ONCE)]
    else:
        pieces = yield from split_topics(group.topics)
        parts = [replace(group, topics=topics) for topics in pieces]

    def merge(found: list[FetchedGroup]) -> Steps[FetchedGroup]:
        error = next((one.error for one in found if one.error), None)
        if error is not None:
            return failed_fetch(group, error)
        return FetchedGroup(group.group_id, (yield from merge_topics(one.topics for one in found)))

    yield from ask_in_pieces(broker, context, parts, _ask_fetch, merge)
