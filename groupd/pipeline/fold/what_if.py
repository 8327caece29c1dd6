"""Replays the recorded changes of each group through another assignor, to compare with what
happened.

Whenever a target was installed, the assignor gets the members, subscriptions and partitions of that
moment. As prior assignment it gets its own previous result, so it works on its own history, as it
would have done in reality. If the log begins in the middle of a history, it starts with the
recorded target.

The time in which partitions have no owner is estimated. Each move costs the average time of a move
in this rebalance, else in the group so far, else a default. The assignor decides how many
partitions move, but not how fast clients give them up.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from groupd.coordinator.core.assignors.api import AssignorError, PartitionAssignor
from groupd.pipeline.fold.entry import FactRow, FoldFacts, FoldObserver
from groupd.pipeline.fold.simulate import assign, deviation, minimal_moves, universe_of
from groupd.pipeline.fold.state import FoldedGroup, OwnedPartition, Rebalance, TopicNames

OK = "ok"


class _GroupReplay(Struct):
    """The replay of one group. `owners`: for each partition the key of its owner."""

    owners: dict[OwnedPartition, str] = field(default_factory=dict)
    waiting: dict[int, FactRow] = field(default_factory=dict)
    unowned_ms: int = 0
    moves: int = 0


class WhatIf(FoldObserver):
    """Adds rows to the table `what-if`. `default_ms`: the time that a move takes if nothing is
    known."""

    def __init__(
        self, facts: FoldFacts, topics: TopicNames, assignor: PartitionAssignor, default_ms: float
    ) -> None:
        self._facts = facts
        self._topics = topics
        self._assignor = assignor
        self._default_ms = default_ms
        self._replays: dict[str, _GroupReplay] = {}

    def baseline(self, group: FoldedGroup) -> None:
        replay = self._replays.setdefault(group.group_id, _GroupReplay())
        replay.owners = {place: owner.key for place, owner in group.target.items()}

    def target_installed(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        replay = self._replays.setdefault(group.group_id, _GroupReplay())
        if not group.members:
            replay.owners.clear()
            return
        if not group.target:
            return
        universe = universe_of(group.target, group.protocol, self._topics)
        row = _recorded(group, rebalance, self._assignor.name)
        try:
            prior = _by_member(group, replay.owners)
            given = assign(self._assignor, group, prior, universe)
            row.update(_simulated(group, replay.owners, given))
            replay.owners = {
                place: group.members[member_id].key
                for member_id, places in given.items()
                for place in places
            }
        except AssignorError as error:
            # The members keep the partitions that they had, as in a group whose assignor fails.
            row["status"] = f"failed: {error}"
        replay.waiting[id(rebalance)] = row

    def rebalance_over(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        replay = self._replays.get(group.group_id)
        row = None if replay is None else replay.waiting.pop(id(rebalance), None)
        if replay is None or row is None:
            return
        unowned = rebalance.unowned()
        replay.unowned_ms += sum(unowned)
        replay.moves += len(unowned)
        row["recorded_unowned_ms"] = sum(unowned) if unowned or not row["recorded_moved"] else None
        if unowned:
            each, model = sum(unowned) / len(unowned), "rebalance"
        elif replay.moves:
            each, model = replay.unowned_ms / replay.moves, "group"
        else:
            each, model = self._default_ms, "default"
        row["unowned_per_move_ms"], row["unowned_model"] = each, model
        if row["simulated_moved"] is not None:
            row["simulated_unowned_ms"] = round(row["simulated_moved"] * each)
        self._facts.add("what-if", row)

    def group_deleted(self, group_id: str) -> None:
        self._replays.pop(group_id, None)


def _by_member(
    group: FoldedGroup, owners: Mapping[OwnedPartition, str]
) -> dict[str, set[OwnedPartition]]:
    ids = {member.key: member_id for member_id, member in group.members.items()}
    found: dict[str, set[OwnedPartition]] = {}
    for place, key in owners.items():
        if key in ids:
            found.setdefault(ids[key], set()).add(place)
    return found


def _recorded(group: FoldedGroup, rebalance: Rebalance, assignor: str) -> FactRow:
    loads = [len(group.target_of.get(member_id, ())) for member_id in group.members]
    return {
        "group": group.group_id,
        "protocol": group.protocol,
        "epoch": rebalance.epoch,
        "at": rebalance.written_ms,
        "assignor": assignor,
        "trigger": rebalance.triggers[0],
        "status": OK,
        "members": len(group.members),
        "partitions": len(group.target),
        "recorded_min": min(loads),
        "recorded_max": max(loads),
        "recorded_stddev": deviation(loads),
        "recorded_moved": rebalance.count("moved"),
        "recorded_needless": rebalance.needless,
        "recorded_unowned_ms": None,
        "simulated_min": None,
        "simulated_max": None,
        "simulated_stddev": None,
        "simulated_moved": None,
        "simulated_needless": None,
        "simulated_unowned_ms": None,
        "unowned_per_move_ms": None,
        "unowned_model": None,
        "same_assignment": None,
        "differing": None,
    }


def _simulated(
    group: FoldedGroup,
    before: Mapping[OwnedPartition, str],
    given: Mapping[str, set[OwnedPartition]],
) -> FactRow:
    loads = [len(given[member_id]) for member_id in group.members]
    after = {
        place: group.members[member_id].key for member_id in given for place in given[member_id]
    }
    moved = sum(before[place] != key for place, key in after.items() if place in before)
    differing = sum(after.get(place) != owner.key for place, owner in group.target.items())
    needless = None
    if group.is_homogeneous():
        kept = {member.key: 0 for member in group.members.values()}
        for place, key in before.items():
            if place in after and key in kept:
                kept[key] += 1
        owned_before = sum(place in after for place in before)
        needless = max(moved - minimal_moves(list(kept.values()), owned_before, len(after)), 0)
    return {
        "simulated_min": min(loads),
        "simulated_max": max(loads),
        "simulated_stddev": deviation(loads),
        "simulated_moved": moved,
        "simulated_needless": needless,
        "same_assignment": not differing and len(after) == len(group.target),
        "differing": differing,
    }
