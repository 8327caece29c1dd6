"""Follows rebalances from their trigger to their end: which partitions each one moved, and how long
those had no owner."""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.core.assignors.api import AssignorError
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.pipeline.fold.entry import FactRow, FoldEntry
from groupd.pipeline.fold.simulate import assign, minimal_moves, universe_of
from groupd.pipeline.fold.state import (
    AWAY,
    CLASSIC,
    COMPLETED,
    EMPTIED,
    OPEN,
    REVOKING,
    SUPERSEDED,
    UNFINISHED,
    FoldedGroup,
    MemberInterval,
    Move,
    OwnedPartition,
    Owner,
    Rebalance,
)
from groupd.pipeline.fold.tracker import Tracker, index_by_key

PRIORITY = (
    "conversion",
    "expiry",
    "rebalance-timeout",
    "removal",
    "leave",
    "join",
    "static-replacement",
    "subscription-change",
    "regex",
    "assignor-change",
    "metadata-change",
    "follow-up",
    "unknown",
)
"""Triggers in order of importance: of several at once, the first in this list names the
rebalance."""

_WORDS = {
    "conversion": "came along from the other protocol",
    "expiry": "expired",
    "rebalance-timeout": "missed its rebalance timeout",
    "removal": "left or expired",
    "leave": "left",
    "join": "joined",
    "static-replacement": "took the place of its instance",
    "subscription-change": "changed its subscription",
    "assignor-change": "asked for another assignor",
}
_WITHOUT_MEMBER = {
    "conversion": "the group changed its protocol",
    "regex": "topics of a regular expression changed",
    "assignor-change": "another assignor was chosen",
    "metadata-change": "topics changed",
    "follow-up": "partitions that were given up in the round before were given out",
    "unknown": "the log does not tell why",
}
_NAMED = 3
_UNIFORM = UniformAssignor()


def open_rebalance(
    tracker: Tracker,
    group: FoldedGroup,
    entry: FoldEntry,
    epoch: int,
    causes: Iterable[tuple[str, str]],
) -> Rebalance:
    """Begins the next rebalance of a group. It supersedes the one before, if that is not over yet.
    `causes`: triggers, each with a member id or ""."""
    causes = sorted(dict.fromkeys(causes), key=lambda cause: PRIORITY.index(cause[0]))
    if group.rebalance is not None:
        over(tracker, group, group.rebalance, SUPERSEDED)
    joined, left = tuple(group.joined_since), tuple(group.left_since)
    group.joined_since, group.left_since = [], []
    after = len(group.members)
    rebalance = group.rebalance = Rebalance(
        epoch,
        group.protocol,
        entry.at_ms,
        entry.log_offset,
        tuple(causes),
        joined,
        left,
        after - len(set(joined) & group.members.keys()) + len(set(left) - set(joined)),
        after,
        group.complete,
        _why(causes),
    )
    rebalance.flapping = _flapping(tracker, group, entry.at_ms)
    group.settled.clear()
    for observer in tracker.observers:
        observer.rebalance_opened(group, rebalance)
    return rebalance


def _why(causes: Iterable[tuple[str, str]]) -> str:
    """The causes in words: `a, b joined; topics changed`."""
    by_trigger: dict[str, list[str]] = {}
    for trigger, member_id in causes:
        by_trigger.setdefault(trigger, []).append(member_id)
    parts = []
    for trigger in sorted(by_trigger, key=PRIORITY.index):
        members = [one for one in by_trigger[trigger] if one]
        if members and trigger in _WORDS:
            more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
            parts.append(f"{', '.join(members[:_NAMED])}{more} {_WORDS[trigger]}")
        else:
            parts.append(_WITHOUT_MEMBER[trigger])
    return "; ".join(parts)


def _flapping(tracker: Tracker, group: FoldedGroup, at_ms: int) -> tuple[str, ...]:
    settings = tracker.settings
    horizon = at_ms - settings.flap_window_ms
    return tuple(
        sorted(
            client
            for client, ends in group.short_lives.items()
            if sum(end >= horizon for end in ends) >= settings.flap_count
        )
    )


def install(tracker: Tracker, group: FoldedGroup, at_ms: int) -> None:
    """Handles a complete new target: notes the moves to it. `group.changed` has the owners before.
    Without an open rebalance (at the beginning of a history, in a conversion) the target is a
    baseline."""
    rebalance = group.rebalance
    if rebalance is None or rebalance.target_ms is not None:
        group.changed.clear()
        for observer in tracker.observers:
            observer.baseline(group)
        return
    rebalance.target_ms = at_ms
    rebalance.partitions = len(group.target)
    now = index_by_key(group.members)
    for place in sorted(group.changed):
        move = _move(tracker, group, place, now)
        if move is not None:
            rebalance.moves.append(move)
            _await(tracker, group, rebalance, move)
    _measure(tracker, group, rebalance, now)
    for observer in tracker.observers:
        observer.target_installed(group, rebalance)
    group.changed.clear()


def _move(
    tracker: Tracker, group: FoldedGroup, place: OwnedPartition, now: dict[str, MemberInterval]
) -> Move | None:
    before, after = group.changed[place], group.target.get(place)
    if before is not None and after is not None and before.key == after.key:
        return None  # the same static member under a new id
    if before is None and after is None:
        return None
    kind = "moved" if before and after else ("gained" if after else "lost")
    forced = before is not None and not _could_keep(tracker, group, place, now.get(before.key))
    return Move(place, kind, before, after, forced)


def _could_keep(
    tracker: Tracker, group: FoldedGroup, place: OwnedPartition, member: MemberInterval | None
) -> bool:
    if member is None:
        return False
    name = place[0] if group.protocol == CLASSIC else tracker.topics.name(place[0])
    return name is None or name in group.subscription_of(member)


def _await(tracker: Tracker, group: FoldedGroup, rebalance: Rebalance, move: Move) -> None:
    """Waits for the new owner: from now on `Tracker.hold` notes when it gets the partition. A move
    that waited for the same partition before is over."""
    earlier = group.awaiting.pop(move.place, None)
    if earlier is not None:
        _taken(tracker, group, earlier[0])
    if move.after is None:
        return
    holding = group.holders.get(move.place)
    if holding is not None and holding.owner.key == move.after.key:
        return  # the new owner never gave up the partition
    group.awaiting[move.place] = (rebalance, move)
    rebalance.untaken += 1


def taken(tracker: Tracker, group: FoldedGroup, places: set[OwnedPartition]) -> None:
    """Completes the moves that waited until their new owners got these partitions."""
    for place in places:
        found = group.awaiting.get(place)
        if found is not None and found[1].taken_ms is not None:
            del group.awaiting[place]
            _taken(tracker, group, found[0])


def _taken(tracker: Tracker, group: FoldedGroup, rebalance: Rebalance) -> None:
    rebalance.untaken -= 1
    if rebalance.untaken == 0 and rebalance.status != OPEN:
        _write(tracker, group, rebalance)


def _measure(
    tracker: Tracker, group: FoldedGroup, rebalance: Rebalance, now: dict[str, MemberInterval]
) -> None:
    """Computes the fewest moves that a balanced result would have needed."""
    loads = {key: len(group.target_of.get(one.member_id, ())) for key, one in now.items()}
    for move in rebalance.moves:
        if move.after is not None and move.after.key in loads:
            loads[move.after.key] -= 1
        if move.kind == "moved" and move.before is not None and move.before.key in loads:
            loads[move.before.key] += 1
    if group.is_homogeneous():
        owned_before = rebalance.partitions - rebalance.count("gained")
        rebalance.minimal = minimal_moves(list(loads.values()), owned_before, rebalance.partitions)
        rebalance.minimal_method = "exact"
    else:
        rebalance.minimal = _moves_of_uniform(tracker, group, rebalance, now)
        rebalance.minimal_method = None if rebalance.minimal is None else "uniform"


def _moves_of_uniform(
    tracker: Tracker, group: FoldedGroup, rebalance: Rebalance, now: dict[str, MemberInterval]
) -> int | None:
    prior = {member_id: set(places) for member_id, places in group.target_of.items()}
    before: dict[OwnedPartition, Owner] = dict(group.target)
    for move in rebalance.moves:
        if move.after is not None:
            prior.get(move.after.member_id, set()).discard(move.place)
            del before[move.place]
        if move.kind == "moved" and move.before is not None:
            before[move.place] = move.before
            if move.before.key in now:
                prior.setdefault(now[move.before.key].member_id, set()).add(move.place)
    universe = universe_of(group.target, group.protocol, tracker.topics)
    try:
        given = assign(_UNIFORM, group, prior, universe)
    except AssignorError:
        return None
    return sum(
        before[place].key != group.members[member_id].key
        for member_id, places in given.items()
        for place in places
        if place in before
    )


def complete_if_stable(tracker: Tracker, group: FoldedGroup, at_ms: int) -> None:
    """Completes the rebalance if every member that has not left for a while is at the group epoch,
    with nothing to give up or to wait for."""
    rebalance = group.rebalance
    if rebalance is None or rebalance.target_ms is None:
        return
    if len(group.settled) + len(group.away) < len(group.members):
        return
    rebalance.stable_ms = at_ms
    over(tracker, group, rebalance, COMPLETED if group.members else EMPTIED)


def _is_late(group: FoldedGroup, member: MemberInterval, rebalance: Rebalance) -> bool:
    """Whether the member has not reached the epoch of the rebalance, or is giving up partitions."""
    if member.state == AWAY or member.member_id in group.joined_since:
        return False
    return member.state == REVOKING or member.epoch is None or member.epoch < rebalance.epoch


def over(tracker: Tracker, group: FoldedGroup, rebalance: Rebalance, status: str) -> None:
    """Ends a rebalance. The row of a superseded rebalance is written when its partitions have been
    taken, or were moved again."""
    rebalance.status = status
    if group.rebalance is rebalance:
        group.rebalance = None
    if status in (SUPERSEDED, UNFINISHED):
        rebalance.waiting_for = tuple(
            one for one in sorted(group.members) if _is_late(group, group.members[one], rebalance)
        )
    if rebalance.untaken and status == SUPERSEDED:
        return
    for place in [p for p, (one, _) in group.awaiting.items() if one is rebalance]:
        del group.awaiting[place]
    rebalance.untaken = 0
    _write(tracker, group, rebalance)


def close(tracker: Tracker, group: FoldedGroup) -> None:
    """Handles the end of the log: writes the rows of rebalances that are still open."""
    if group.rebalance is not None:
        over(tracker, group, group.rebalance, UNFINISHED)
    seen: dict[int, Rebalance] = {id(one): one for one, _ in group.awaiting.values()}
    group.awaiting.clear()
    for rebalance in seen.values():
        _write(tracker, group, rebalance)


def _write(tracker: Tracker, group: FoldedGroup, rebalance: Rebalance) -> None:
    tracker.facts.add("rebalances", _row(group, rebalance))
    for move in rebalance.moves:
        tracker.facts.add("rebalance_moves", _move_row(tracker, group, rebalance, move))
    for observer in tracker.observers:
        observer.rebalance_over(group, rebalance)


def _row(group: FoldedGroup, rebalance: Rebalance) -> FactRow:
    moved = rebalance.count("moved")
    unowned = rebalance.unowned()
    started, stable = rebalance.started_ms, rebalance.stable_ms
    needless = rebalance.needless
    return {
        "group": group.group_id,
        "protocol": rebalance.protocol,
        "epoch": rebalance.epoch,
        "started": started,
        "target_at": rebalance.target_ms,
        "stable_at": stable,
        "duration_ms": None if started is None or stable is None else stable - started,
        "status": rebalance.status,
        "trigger": rebalance.triggers[0],
        "triggers": list(rebalance.triggers),
        "trigger_members": list(rebalance.trigger_members),
        "why": rebalance.why,
        "assignor": rebalance.assignor,
        "members_before": rebalance.members_before,
        "members_after": rebalance.members_after,
        "joined": list(rebalance.joined),
        "left": list(rebalance.left),
        "partitions": rebalance.partitions,
        "moved": moved,
        "gained": rebalance.count("gained"),
        "lost": rebalance.count("lost"),
        "minimal": rebalance.minimal,
        "minimal_method": rebalance.minimal_method,
        "needless": needless,
        "needless_share": needless / moved if needless is not None and moved else None,
        "unowned_sum_ms": sum(unowned) if unowned or not moved else None,
        "unowned_max_ms": max(unowned, default=None if moved else 0),
        "unowned_unknown": moved - len(unowned),
        "waiting_for": list(rebalance.waiting_for),
        "flapping": list(rebalance.flapping),
        "skipped_generations": rebalance.skipped,
        "complete_history": rebalance.complete,
        "written_at": rebalance.written_ms,
        "log_partition": group.log_partition,
        "log_offset": rebalance.log_offset,
    }


def _move_row(tracker: Tracker, group: FoldedGroup, rebalance: Rebalance, move: Move) -> FactRow:
    return {
        "group": group.group_id,
        "epoch": rebalance.epoch,
        "written_at": rebalance.written_ms,
        **tracker.topics.columns(move.place, rebalance.protocol),
        "kind": move.kind,
        "from_member": move.before and move.before.member_id,
        "to_member": move.after and move.after.member_id,
        "forced": move.forced,
        "released_at": move.released_ms,
        "taken_at": move.taken_ms,
        "unowned_ms": move.unowned_ms,
    }
