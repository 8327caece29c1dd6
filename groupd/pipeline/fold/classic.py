"""Applies records of classic groups (type 2), each of which shows a whole generation.

A record is written when a generation is assigned, when the group becomes empty, and when a static
member comes back under another id. What happened in between (when a member left, which members took
part in a rebalance that was not finished) never reaches the log. A rebalance here is the change
from one written generation to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE
from groupd.pipeline.fold import rebalances
from groupd.pipeline.fold.entry import FoldEntry
from groupd.pipeline.fold.state import (
    CONVERTED,
    REPLACED,
    STABLE,
    FoldedGroup,
    MemberInterval,
    OwnedPartition,
)
from groupd.pipeline.fold.tracker import Tracker
from groupd.protocol.consumer_protocol import (
    MalformedSubscription,
    parse_assignment,
    parse_subscription,
)


class _Change(Struct):
    """What a record changes compared with the one before."""

    joined: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    resubscribed: list[str] = field(default_factory=list)
    protocol: bool = False


def apply(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    """Applies a value of the group's record."""
    value = entry.value or {}
    generation, before = int(value["generation"]), group.epoch
    had_members = bool(group.members or group.departing)
    group.protocol_type = value["protocol_type"] or ""
    now = {member["member_id"]: member for member in value["members"] or ()}
    if before == -1:
        group.complete = group.complete or generation <= 1
    group.causes.clear()
    change = _members(tracker, group, entry, now)
    change.protocol = bool(now) and group.protocol_name not in (None, value["protocol"])
    if now:
        group.protocol_name = value["protocol"]
    group.epoch = generation
    _assignments(tracker, group, now)
    _rebalanced(tracker, group, entry, change, before, had_members)
    _hold(tracker, group, entry)
    rebalances.complete_if_stable(tracker, group, entry.at_ms)
    if not group.members:
        group.complete = True
        group.released.clear()


def _members(
    tracker: Tracker, group: FoldedGroup, entry: FoldEntry, now: Mapping[str, Mapping[str, Any]]
) -> _Change:
    change = _Change()
    generation = int((entry.value or {})["generation"])
    converting = bool(group.departing)
    for member_id in [one for one in group.members if one not in now]:
        tracker.depart(group, member_id, entry.at_ms)
    for member_id in sorted(now):
        value = now[member_id]
        member = group.members.get(member_id)
        if member is None:
            member = _newcomer(tracker, group, entry, value, converting)
            if member.began_by == REPLACED:
                change.replaced.append(member_id)
            elif member.began_by != CONVERTED:
                change.joined.append(member_id)
                group.joined_since.append(member_id)
        _describe(member, value, change)
        member.heard_ms = entry.at_ms
        tracker.enter(group, member, entry, generation, STABLE)
    tracker.flush(group)
    return change


def _newcomer(
    tracker: Tracker,
    group: FoldedGroup,
    entry: FoldEntry,
    value: Mapping[str, Any],
    converting: bool,
) -> MemberInterval:
    member_id, instance_id = value["member_id"], value["group_instance_id"]
    departed = group.departing.pop(member_id, None)
    if departed is not None and converting:
        return tracker.succeed(group, departed, entry, member_id, CONVERTED)
    taken_over = tracker.take_over(group, entry, instance_id, member_id)
    if taken_over is not None:
        return taken_over[1]
    return tracker.begin(group, entry, member_id, "joined" if group.complete else None)


def _describe(member: MemberInterval, value: Mapping[str, Any], change: _Change) -> None:
    topics: tuple[str, ...] = ()
    try:
        subscription = parse_subscription(value["subscription"] or b"")
        topics = tuple(sorted(set(subscription.topics)))
        member.rack_id = subscription.rack_id
    except MalformedSubscription:
        pass  # the assignment is in a client's own format
    if member.first_epoch is not None and topics != member.topics:
        change.resubscribed.append(member.member_id)
    member.topics = topics
    member.instance_id = value["group_instance_id"]
    member.client_id = value["client_id"] or ""
    member.client_host = value["client_host"] or ""
    member.rebalance_timeout_ms = value["rebalance_timeout_ms"]
    member.session_timeout_ms = value["session_timeout_ms"]


def _assignments(
    tracker: Tracker, group: FoldedGroup, now: Mapping[str, Mapping[str, Any]]
) -> None:
    """Sets the new target, and notes the former owner of each partition that changes its owner."""
    before, group.target, group.target_of = group.target, {}, {}
    for member_id in sorted(now):
        places = _places(group, now[member_id])
        if places:
            group.target_of[member_id] = places
        owner = group.members[member_id].owner
        group.target.update(dict.fromkeys(places, owner))
    for place in before.keys() | group.target.keys():
        if before.get(place) != group.target.get(place):
            group.changed[place] = before.get(place)


def _places(group: FoldedGroup, value: Mapping[str, Any]) -> set[OwnedPartition]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or not value["assignment"]:
        return set()
    try:
        parsed = parse_assignment(value["assignment"])
    except MalformedSubscription:
        return set()
    return {(topic, number) for topic, numbers in parsed.partitions for number in numbers}


def _rebalanced(
    tracker: Tracker,
    group: FoldedGroup,
    entry: FoldEntry,
    change: _Change,
    before: int,
    had_members: bool,
) -> None:
    """Opens a rebalance if the generation is a new one; otherwise the target is a baseline."""
    first_unknown = before == -1 and not group.complete
    idle = not group.members and not had_members
    converting = before == -1 and group.converted_ms is not None
    if group.epoch == before or first_unknown or idle or converting:
        group.changed.clear()
        if group.members:
            for observer in tracker.observers:
                observer.baseline(group)
        return
    value = entry.value or {}
    for place, owner in list(group.changed.items()):
        gone = group.released.get(place)
        if owner is None and gone is not None:
            group.changed[place] = gone[1]  # the second round of a cooperative rebalance
    causes = _causes(group, change)
    rebalance = rebalances.open_rebalance(tracker, group, entry, group.epoch, causes)
    group.causes.clear()
    group.settled.update(group.members)
    rebalance.assignor = value["protocol"]
    rebalance.skipped = max(group.epoch - max(before, 0) - 1, 0)
    joined_ms = value.get("current_state_ms")
    rebalances.install(tracker, group, entry.at_ms)
    rebalance.target_ms = joined_ms if joined_ms and joined_ms > 0 else entry.at_ms


def _causes(group: FoldedGroup, change: _Change) -> list[tuple[str, str]]:
    """The triggers of the rebalance, each with a member id or ""."""
    causes = [(cause.trigger, cause.member_id) for cause in group.causes]
    if group.converted_ms is not None:
        group.converted_ms = None
        causes.append(("conversion", ""))
    causes += [("join", member_id) for member_id in change.joined]
    causes += [("subscription-change", member_id) for member_id in change.resubscribed]
    if change.protocol:
        causes.append(("assignor-change", ""))
    if causes:
        return causes
    if any(owner is None and place in group.target for place, owner in group.changed.items()):
        return [("metadata-change", "")]
    return [("follow-up" if group.released else "unknown", "")]


def _hold(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    """Gives each member the partitions that the generation assigns to it. If a partition goes
    straight from one member to another, the log does not tell when the former owner gave it up."""
    for member_id in sorted(group.members):
        member = group.members[member_id]
        keeps = group.target_of.get(member_id, set())
        for place in sorted(member.assigned - keeps):
            tracker.release(group, place, member, entry.at_ms, "revoked")
        member.assigned &= keeps
    for place in [place for place in group.target if place in group.released]:
        if group.released[place][0] == entry.at_ms:
            del group.released[place]
    for member_id in sorted(group.members):
        member = group.members[member_id]
        gained = group.target_of.get(member_id, set()) - member.assigned
        tracker.set_held(group, member, entry, set(group.target_of.get(member_id, ())), set())
        rebalances.taken(tracker, group, gained)
