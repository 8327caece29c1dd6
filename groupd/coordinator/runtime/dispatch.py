"""How a request is passed to shards: whole to the shard of its group, or in pieces if it is about
many partitions or members.

Each piece is handled like a whole request and takes no longer than one. The pieces of a request are
asked in order, with other requests in between, and their replies are merged into one
(docs/adr/0035).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from groupd.coordinator.core.frontend.offsets import Finish
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker, Dispatch
from groupd.coordinator.runtime.waiting import Gather, Part
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import (
    CommitTopic,
    FetchedTopic,
    FetchTopic,
    TopicErrors,
)


def to_group(broker: Broker, context: RequestContext, request: Any) -> None:
    """Let the shard of the request's group answer it."""
    if broker.started:
        broker.shard_of(request.group_id).handle(context, request)
    else:
        context.token.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def ask_admitted(
    broker: Broker, context: RequestContext, kept: Any | None, finish: Finish | None
) -> None:
    """Let the shard answer `kept`, the part of a request that the front end has not answered; None:
    nothing is left. `finish(reply)` adds the front end's answers to the reply of the shard; None:
    there are none to add."""
    waiter = context.token
    if finish is not None:
        waiter.part, waiter.finish = kept, finish
    if kept is None:
        waiter.answer(None)
    else:
        to_group(broker, context, kept)


_partitions = attrgetter("partitions")

PIECE = 500
"""How many topics and partitions one piece holds at most. A commit of that many takes about a
millisecond."""

AskedTopic = TypeVar("AskedTopic", CommitTopic, FetchTopic)
Answered = TypeVar("Answered", TopicErrors, FetchedTopic)


def is_long(topics: Sequence[Any]) -> bool:
    """Whether `topics` need more than one piece."""
    if len(topics) > PIECE:
        return True
    return len(topics) + sum(map(len, map(_partitions, topics))) > PIECE


def split_topics(topics: Iterable[AskedTopic]) -> Steps[list[tuple[AskedTopic, ...]]]:
    """Returns the topics cut into pieces. A topic with many partitions is in several of them."""
    pieces: list[tuple[AskedTopic, ...]] = []
    piece: list[AskedTopic] = []
    room = PIECE
    for topic in topics:
        at, count = 0, len(topic.partitions)
        while True:
            if room < 2:
                pieces.append(tuple(piece))
                piece, room = [], PIECE
                yield
            some = topic.partitions[at : at + room - 1]
            piece.append(topic if len(some) == count else replace(topic, partitions=some))
            at += len(some)
            room -= 1 + len(some)
            if at >= count:
                break
    if piece:
        pieces.append(tuple(piece))
    return pieces


def ask_in_pieces(
    broker: Broker,
    context: RequestContext,
    requests: Sequence[Any],
    place: Dispatch,
    merge: Callable[[list[Any]], Steps[Any]],
) -> Steps[None]:
    """Handle a request in pieces. `requests`: the pieces. `place` passes each of them to a shard.
    `merge` makes one reply out of all replies."""
    waiter = context.token
    gather = Gather(waiter, len(requests), merge, broker.work.answer)
    for index, request in enumerate(requests):
        if index:
            yield
        part = Part(request, waiter.failure, gather, index)
        place(broker, broker.part(context, part), request)


def merge_topics(parts: Iterable[Sequence[Answered]]) -> Steps[Sequence[Answered]]:
    """Returns the topics of all partial replies: one entry for each topic, in the order in which
    they first appear."""
    found: dict[tuple[str, bytes], list[Answered]] = {}
    for number, part in enumerate(parts):
        if number:
            yield
        for topic in part:
            found.setdefault((topic.name, topic.topic_id), []).append(topic)
    return Lazily(len(found), lambda: map(_whole, found.values()))


def _whole(entries: list[Answered]) -> Answered:
    """Returns one entry for a topic, made of its entries in several partial replies."""
    if len(entries) == 1:
        return entries[0]
    parts = [entry.partitions for entry in entries]
    partitions: Lazily[Any] = Lazily(sum(map(len, parts)), lambda: chain.from_iterable(parts))
    return replace(entries[0], partitions=partitions)
