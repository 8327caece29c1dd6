"""`/groups/{id}/what-if`: what another assignor would do with a group, before anybody changes a
setting."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import pstdev
from typing import Any

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Steps, Work, chunks, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.waiting import topic_name
from groupd.coordinator.server.admin_http import BadRequest
from groupd.protocol.messages import TopicId

MOVES_SHOWN = 5000
"""Moves that are listed one by one; `moved` counts all."""


def what_if_steps(state: ShardState, group: Group, name: str | None) -> Steps[dict[str, Any]]:
    """Without a `name` the `assignors` that there are, and the one that is `used`. With one:
    `moves` (topic, partition, `from` and `to`: member ids or None), the `target` by member, topic
    and partitions, and for `current` and `proposed` how many partitions each member has, and in
    `balance` how even that is. Raises BadRequest for a group whose members assign by themselves, an
    assignor that is not there, and one that fails."""
    what_if = type_of(group).what_if
    if what_if is None:
        raise BadRequest(f"the members of a {group.type_name} group assign by themselves")
    if name is None:
        return {"assignors": list(state.assignors), "used": what_if.used(state, group)}
    if name not in state.assignors:
        raise BadRequest(f"assignor must be one of {', '.join(state.assignors)}")
    try:
        proposal = yield from what_if.propose(state, group, name)
    except AssignorFailed as error:
        raise BadRequest(str(error)) from None
    now, then = proposal.current, proposal.proposed
    moves = yield from _moves(now, then, state.image)
    target: dict[str, dict[str, list[int]]] = {}
    for some in chunks(then.items()):
        for member_id, given in some:
            target[member_id] = {topic_name(one, state.image): list(given[one]) for one in given}
        yield
    return {
        "group_id": group.group_id,
        "assignor": name,
        "moves": moves[:MOVES_SHOWN],
        "moved": len(moves),
        "target": target,
        "current": _counts(now),
        "proposed": _counts(then),
        "balance": {"current": _balance(now), "proposed": _balance(then)},
    }


def _moves(
    now: Mapping[str, Assignment], then: Mapping[str, Assignment], image: MetadataImage
) -> Steps[list[dict[str, Any]]]:
    before = yield from _owners(now)
    after = yield from _owners(then)
    places = yield from sorted_in_steps(before.keys() | after.keys())
    moves = []
    work = Work()
    for place in places:
        source, target = before.get(place), after.get(place)
        if source != target:
            topic = topic_name(place[0], image)
            moves.append({"topic": topic, "partition": place[1], "from": source, "to": target})
        if work.enough():
            yield
    return moves


def _owners(targets: Mapping[str, Assignment]) -> Steps[dict[tuple[TopicId, int], str]]:
    owners: dict[tuple[TopicId, int], str] = {}
    work = Work()
    for member_id, given in targets.items():
        for topic, numbers in given.items():
            owners.update(((topic, number), member_id) for number in numbers)
            if work.enough(1 + len(numbers)):
                yield
    return owners


def _counts(targets: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, given.values())) for member_id, given in targets.items()}


def _balance(targets: Mapping[str, Assignment]) -> dict[str, float]:
    """`least` and `most` partitions of a member, and the standard `deviation`."""
    counts = list(_counts(targets).values()) or [0]
    return {"least": min(counts), "most": max(counts), "deviation": round(pstdev(counts), 2)}
