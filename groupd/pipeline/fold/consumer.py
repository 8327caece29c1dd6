"""Applies records of consumer groups (KIP-848): types 3, 5 to 8 and 16.

One operation of the coordinator writes its records with one timestamp and in this order: changes of
members, the group epoch, the target assignment, the member's own assignment. So the changes that
come with a new group epoch are its cause. An epoch that comes alone was caused from outside the
group, by topic metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH
from groupd.pipeline.fold import rebalances
from groupd.pipeline.fold.entry import (
    CONSUMER_GROUP,
    CURRENT_MEMBER,
    MEMBER_METADATA,
    REGEX,
    TARGET_MEMBER,
    TARGET_METADATA,
    FoldEntry,
)
from groupd.pipeline.fold.state import (
    AWAY,
    CONVERTED,
    REVOKING,
    STABLE,
    WAITING,
    Cause,
    FoldedGroup,
    MemberInterval,
    OwnedPartition,
)
from groupd.pipeline.fold.tracker import Tracker

_FIRST_EPOCH = 2
"""The highest epoch with which the log of a new group begins. The group raises its epoch from 1; in
the first versions of Kafka it raised it from 0."""

_STATES = {0: STABLE, 1: REVOKING, 2: WAITING}


def apply(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    """Applies one record of a consumer group, except for the group's tombstone, which the caller
    handles."""
    assert entry.kind is not None
    _APPLIERS[entry.kind](tracker, group, entry)


def forget(group: FoldedGroup) -> None:
    """Handles the group's tombstone: what comes next under its id is another group."""
    group.target.clear()
    group.target_of.clear()
    group.changed.clear()
    group.released.clear()
    group.regexes.clear()
    group.causes.clear()
    group.epoch = -1
    group.metadata_hash = None
    group.complete = True


def _group_epoch(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    value = entry.value or {}
    tracker.flush(group)
    causes = [cause for cause in group.causes if cause.at_ms == entry.at_ms]
    group.causes.clear()
    before, epoch, old_hash = group.epoch, int(value["epoch"]), group.metadata_hash
    group.metadata_hash = value["metadata_hash"]
    if epoch == before:
        return
    group.epoch = epoch
    converting = group.converted_ms is not None
    if before == -1 and converting:
        group.complete = True
        return  # the epoch is still the classic generation; a later record raises it
    group.converted_ms = None
    if before == -1:
        group.complete = group.complete or (epoch <= _FIRST_EPOCH and len(group.members) < 2)
        if not group.complete and not causes:
            return
    _note_joined(group, causes)
    triggers = [(cause.trigger, cause.member_id) for cause in causes]
    if converting:
        triggers.append(("conversion", ""))
    if not triggers:
        # Brokers before Kafka 4.1 write no hash; with them, hardly any other cause is possible.
        changed = not group.metadata_hash or old_hash not in (None, group.metadata_hash)
        triggers.append(("metadata-change" if changed else "unknown", ""))
    rebalance = rebalances.open_rebalance(tracker, group, entry, epoch, triggers)
    rebalance.started_ms = entry.at_ms
    rebalance.complete = group.complete and before in (-1, epoch - 1)


def _note_joined(group: FoldedGroup, causes: Iterable[Cause]) -> None:
    """Settles for members with an unknown beginning whether they have joined now. They may also
    have been in the group before the log begins."""
    joined = {cause.member_id for cause in causes if cause.trigger == "join"}
    for member_id, member in group.members.items():
        if member.began_by is None and (group.complete or member_id in joined):
            member.began_by = "joined"
            group.joined_since.append(member_id)


def _member_metadata(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    if entry.value is None:
        tracker.depart(group, entry.member, entry.at_ms)
        return
    value = entry.value
    instance_id = value["instance_id"]
    member = group.members.get(entry.member)
    if member is None:
        member = _newcomer(tracker, group, entry, instance_id)
    _note_changes(group, member, entry, value)
    member.instance_id = instance_id
    member.client_id = value["client_id"] or ""
    member.client_host = value["client_host"] or ""
    member.rack_id = value["rack_id"]
    member.topics = tuple(value["subscribed_topic_names"] or ())
    member.regex = value["subscribed_topic_regex"] or ""
    member.assignor = value["server_assignor"]
    member.rebalance_timeout_ms = value["rebalance_timeout_ms"]
    classic = value["classic"]
    member.session_timeout_ms = classic["session_timeout_ms"] if classic else None
    member.heard_ms = entry.at_ms


def _newcomer(
    tracker: Tracker, group: FoldedGroup, entry: FoldEntry, instance_id: str | None
) -> MemberInterval:
    departed = group.departing.pop(entry.member, None)
    if departed is not None:
        return tracker.succeed(group, departed, entry, entry.member, CONVERTED)
    taken_over = tracker.take_over(group, entry, instance_id, entry.member)
    if taken_over is not None:
        # It begins with a copy of the old member, so only what differs from it is a change.
        old, member = taken_over
        member.topics, member.regex, member.assignor = old.topics, old.regex, old.assignor
        return member
    member = tracker.begin(group, entry, entry.member, "joined" if group.complete else None)
    if group.complete:
        group.joined_since.append(entry.member)
    group.causes.append(Cause(entry.at_ms, "join", entry.member))
    return member


def _note_changes(
    group: FoldedGroup, member: MemberInterval, entry: FoldEntry, value: Mapping[str, Any]
) -> None:
    if any(cause.trigger == "join" and cause.member_id == entry.member for cause in group.causes):
        return
    if member.log_offset == entry.log_offset and member.began_by == CONVERTED:
        return
    topics = tuple(value["subscribed_topic_names"] or ())
    regex = value["subscribed_topic_regex"] or ""
    changes = {
        "subscription-change": topics != member.topics or regex != member.regex,
        "assignor-change": value["server_assignor"] != member.assignor,
    }
    for trigger, changed in changes.items():
        if changed:
            group.causes.append(Cause(entry.at_ms, trigger, entry.member))


def _target_metadata(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    if entry.value is None:
        return
    rebalances.install(tracker, group, entry.at_ms)
    rebalances.complete_if_stable(tracker, group, entry.at_ms)
    if not group.members:
        group.complete = True
        group.released.clear()


def _target_member(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    member = group.members.get(entry.member) or group.departing.get(entry.member)
    if member is None and entry.value is not None:
        member = tracker.begin(group, entry, entry.member, None)
    before = group.target_of.pop(entry.member, set())
    after = set() if entry.value is None else _places(entry.value["topics"])
    for place in before - after:
        owner = group.target.get(place)
        if owner is not None and owner.member_id == entry.member:
            group.changed.setdefault(place, owner)
            del group.target[place]
    for place in after - before:
        assert member is not None
        group.changed.setdefault(place, group.target.get(place))
        group.target[place] = member.owner
    if after:
        group.target_of[entry.member] = after


def _current_member(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    value = entry.value
    if value is None:
        return  # the tombstone of the member's metadata comes next, and tells more
    member = group.members.get(entry.member)
    if member is None:
        member = tracker.begin(group, entry, entry.member, None)
    epoch = int(value["member_epoch"])
    state = _STATES.get(value["state"], STABLE)
    if epoch == LEAVE_STATIC_EPOCH:
        state = AWAY
    tracker.enter(group, member, entry, epoch if epoch >= 0 else member.epoch or 0, state)
    assigned, pending = _places(value["assigned"]), _places(value["pending_revocation"])
    gained = (assigned | pending) - member.held()
    tracker.set_held(group, member, entry, assigned, pending)
    rebalances.taken(tracker, group, gained)
    member.heard_ms = entry.at_ms
    if epoch:
        group.causes.clear()
    group.settled.discard(entry.member)
    group.away.discard(entry.member)
    if state == AWAY:
        group.away.add(entry.member)
    elif state == STABLE and epoch == group.epoch:
        group.settled.add(entry.member)
    rebalances.complete_if_stable(tracker, group, entry.at_ms)


def _regex(tracker: Tracker, group: FoldedGroup, entry: FoldEntry) -> None:
    value = entry.value
    if value is None or entry.tombstone:
        return  # no member uses it any more; the change of its last member is the cause
    topics = tuple(value["topics"] or ())
    if group.regexes.get(value["regex"]) != topics:
        group.regexes[value["regex"]] = topics
    group.causes.append(Cause(entry.at_ms, "regex", ""))
    used = {member.regex for member in group.members.values()} | {value["regex"]}
    for pattern in group.regexes.keys() - used:
        del group.regexes[pattern]


def _places(topics: Iterable[Mapping[str, Any]] | None) -> set[OwnedPartition]:
    return {(one["topic_id"], number) for one in topics or () for number in one["partitions"] or ()}


_APPLIERS: dict[int, Callable[[Tracker, FoldedGroup, FoldEntry], None]] = {
    CONSUMER_GROUP: _group_epoch,
    MEMBER_METADATA: _member_metadata,
    TARGET_METADATA: _target_metadata,
    TARGET_MEMBER: _target_member,
    CURRENT_MEMBER: _current_member,
    REGEX: _regex,
}
