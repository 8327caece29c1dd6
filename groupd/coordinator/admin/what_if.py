"""`/groups/{id}/what-if`: what another assignor would do with a group, before anybody changes a
setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from math import sqrt
from typing import Any

from groupd.coordinator.admin.http_server import BadRequest
from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.errors import AssignorFailed, TrialRefused
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Pace, Steps, chunks, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.waiting import topic_name
from groupd.protocol.messages import TopicId

MOVES_SHOWN = 5000
"""Moves that are listed one by one; `moved` counts all."""

_Place = tuple[TopicId, int]


def what_if_steps(state: ShardState, group: Group, name: str | None) -> Steps[dict[str, Any]]:
    """Without a `name` the `assignors` that there are, and the one that is `used`, None if the
    members assign by themselves. With one: `compared`, a text that says what is compared; `moves`
    (topic, partition, `from` and `to`: member ids or None); the `target` by member, topic and
    partitions; and for `current` and `proposed` how many partitions each member has, and in
    `balance` how even that is. Raises BadRequest for a group on which no assignor can be tried, an
    assignor that is not there, and one that fails."""
    what_if = type_of(group).what_if
    if what_if is None:
        raise BadRequest(f"no assignor can be tried on a {group.type_name} group")
    try:
        if name is None:
            return {"assignors": list(state.assignors), "used": what_if.used(state, group)}
        if name not in state.assignors:
            raise BadRequest(f"assignor must be one of {', '.join(state.assignors)}")
        proposal = yield from what_if.propose(state, group, name)
    except TrialRefused as error:
        raise BadRequest(str(error)) from None
    except AssignorFailed as error:
        raise BadRequest(f"the assignor {error.assignor} failed: {error.fault}") from None
    now, then = proposal.current, proposal.proposed
    changed = yield from _changes(now, then)
    moves = yield from _moves(changed, state.image)
    target: dict[str, dict[str, list[int]]] = {}
    for some in chunks(then.items()):
        for member_id, given in some:
            target[member_id] = {topic_name(one, state.image): list(given[one]) for one in given}
        yield
    counts, counts_then = (yield from _counts(now)), (yield from _counts(then))
    balance = yield from _balance(counts.values())
    balance_then = yield from _balance(counts_then.values())
    return {
        "group_id": group.group_id,
        "assignor": name,
        "compared": proposal.compared,
        "moves": moves,
        "moved": len(changed),
        "target": target,
        "current": counts,
        "proposed": counts_then,
        "balance": {"current": balance, "proposed": balance_then},
    }


_Changes = dict[_Place, tuple[str | None, str | None]]
"""Partitions with another owner: who has it, and who would have it."""


def _changes(now: Mapping[str, Assignment], then: Mapping[str, Assignment]) -> Steps[_Changes]:
    before = yield from _owners(now)
    after = yield from _owners(then)
    changed: _Changes = {}
    pace = Pace()
    for place, source in before.items():
        target = after.pop(place, None)
        if source != target:
            changed[place] = source, target
        if pace.due():
            yield
    for some in chunks(after.items()):
        changed.update((place, (None, target)) for place, target in some)
        yield
    return changed


def _moves(changed: _Changes, image: MetadataImage) -> Steps[list[dict[str, Any]]]:
    """The first ones, by topic id and partition."""
    places = yield from sorted_in_steps(changed)
    moves = []
    for some in chunks(islice(places, MOVES_SHOWN)):
        for topic, number in some:
            source, target = changed[topic, number]
            name = topic_name(topic, image)
            moves.append({"topic": name, "partition": number, "from": source, "to": target})
        yield
    return moves


def _owners(targets: Mapping[str, Assignment]) -> Steps[dict[_Place, str]]:
    owners: dict[_Place, str] = {}
    pace = Pace()
    for member_id, given in targets.items():
        for topic, numbers in given.items():
            owners.update(((topic, number), member_id) for number in numbers)
            if pace.due(len(numbers)):
                yield
        if pace.due():
            yield
    return owners


def _counts(targets: Mapping[str, Assignment]) -> Steps[dict[str, int]]:
    counts: dict[str, int] = {}
    for some in chunks(targets.items()):
        counts.update((member_id, sum(map(len, given.values()))) for member_id, given in some)
        yield
    return counts


def _balance(counts: Iterable[int]) -> Steps[dict[str, float]]:
    """`least` and `most` partitions of a member, and the standard `deviation`."""
    size = total = squares = most = 0
    least: int | None = None
    for some in chunks(counts):
        size += len(some)
        total += sum(some)
        squares += sum(one * one for one in some)
        least = min(some) if least is None else min(least, *some)
        most = max(most, *some)
        yield
    deviation = sqrt(size * squares - total * total) / size if size else 0.0
    return {"least": least or 0, "most": most, "deviation": round(deviation, 2)}
