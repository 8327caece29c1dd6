"""What is shown of a consumer group: epochs, members, and what it waits for (its target, the topics
of regular expressions, or members)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.blocked import Wait, due_in, named, topic_name, wait
from groupd.coordinator.core.consumer_group import deferred_target
from groupd.coordinator.core.consumer_group.configs import (
    assignment_interval_ms,
)
from groupd.coordinator.core.consumer_group.group import (
    JOIN,
    NO_TARGET,
    PATIENCE,
    REBALANCE,
    SESSION,
    SYNC,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from groupd.coordinator.core.consumer_group.regex import MIN_REFRESH_INTERVAL_MS
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.subscription import (
    TopicsChange,
    metadata_hash,
)
from groupd.coordinator.core.epochs import is_refresh_due
from groupd.coordinator.core.group_type import Holding, MemberIdentity
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import LISTED_MAX, Pace, Pairs, Steps, smallest
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId, TopicIdPartition


class _ConsumerSnapshot:
    """What is shown of a group, at one moment. Members and targets are immutable."""

    __slots__ = ("_member_ids", "_members", "image", "targets")

    def __init__(self, group: ConsumerGroup, image: MetadataImage) -> None:
        self._member_ids = list(group.sorted_member_ids())
        self._members = dict(group.members)
        self.targets = dict(group.targets)
        self.image = image

    def members(self, after: str | None = None) -> Iterator[ConsumerGroupMember]:
        """The members by id, those after the id `after`."""
        start = 0 if after is None else bisect_right(self._member_ids, after)
        return (self._members[one] for one in islice(self._member_ids, start, None))

    def target(self, member: ConsumerGroupMember) -> Assignment:
        return self.targets.get(member.member_id, NO_TARGET)


def inspect(
    state: ShardState, group: ConsumerGroup, now: Instant, after: str | None = None
) -> dict[str, Any]:
    """The description of the group. `blocked`: what the group waits for. The lists may be long, so
    they are iterators: they show this moment, but are built while they are read. None in them is
    not an item but a point where other work may run."""
    snapshot = _ConsumerSnapshot(group, state.image)
    return {
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "resolved_regexes": Pairs(_regexes(group)),
        "members": _shown_members(snapshot, after),
        "blocked": _waits(state, group, snapshot, now),
    }


def _regexes(group: ConsumerGroup) -> Iterator[tuple[str, list[str]] | None]:
    for pattern in (yield from smallest(list(group.regexes), LISTED_MAX + 1)):
        yield pattern, list(group.regexes.topics_of(pattern))


def _shown_members(
    snapshot: _ConsumerSnapshot, after: str | None
) -> Iterator[dict[str, Any] | None]:
    for member in snapshot.members(after):
        yield (yield from _shown(snapshot, member))


def _shown(snapshot: _ConsumerSnapshot, member: ConsumerGroupMember) -> Steps[dict[str, Any]]:
    image = snapshot.image
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "consumer" if member.classic is None else "classic",
        "state": member.state.name,
        "member_epoch": member.member_epoch,
        "previous_member_epoch": member.previous_member_epoch,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "server_assignor": member.server_assignor,
        "owned": (yield from named(member.assigned, image)),
        "pending_revocation": (yield from named(member.pending_revocation, image)),
        "target": (yield from named(snapshot.target(member), image)),
    }


def awaited(state: ShardState, group: ConsumerGroup, now: Instant) -> Iterator[dict[str, Any]]:
    """When the next target is due. It has no timer: the first heartbeat after that time computes
    the target (KIP-1263)."""
    if group.assignment_epoch >= group.group_epoch:
        return
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    due_ms = group.assignment_timestamp_ms + interval_ms
    yield {
        "kind": "consumer-next-target",
        "member_id": "",
        "in_ms": max(0, due_ms - now.wall_ms),
    }


def identify(group: ConsumerGroup, member_id: str) -> MemberIdentity:
    member = group.members[member_id]
    return MemberIdentity(
        member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
    )


def owned_partitions(group: ConsumerGroup, member_id: str) -> Iterable[Holding]:
    """The partitions of a member by topic id. They include those that it is revoking, since it may
    still commit for them until it has confirmed the revocation."""
    member = group.members[member_id]
    return chain(member.assigned.items(), member.pending_revocation.items())


def _waits(
    state: ShardState, group: ConsumerGroup, snapshot: _ConsumerSnapshot, now: Instant
) -> Iterator[Wait | None]:
    """What the group waits for. There is nothing unless the group is Assigning or Reconciling, or
    has expressions to resolve. First come the waits of the group as a whole, then each wanted
    partition with the member that still holds it, then members that appear in none of these. None
    is not an item but a point where other work may run."""
    group_waits = [*_target(state, group, now), *_topics(state, group, now)]
    deadlines = _Deadlines(state, group.group_id, now)
    # Taken now, because the iterator may be read later.
    reconciling = group.state_name() == "Reconciling"
    epoch = group.assignment_epoch
    return _all(snapshot, group_waits, deadlines, epoch, reconciling)


def _all(
    snapshot: _ConsumerSnapshot,
    first: list[Wait],
    deadlines: _Deadlines,
    epoch: int,
    reconciling: bool,
) -> Iterator[Wait | None]:
    yield from first
    explained: set[str] = set()
    for entry in _partitions(snapshot, deadlines):
        if entry is not None:
            explained |= {entry["member_id"], entry["held_by"]}
        yield entry
    if not reconciling:
        return
    pace = Pace()
    for member in snapshot.members():
        if member.member_id not in explained and not member.is_reconciled_to(epoch):
            yield _member(snapshot, deadlines, member, epoch)
        if pace.due():
            yield None


class _Deadlines:
    def __init__(self, state: ShardState, group_id: str, now: Instant) -> None:
        self._deadlines = state.deadlines
        self._group_id = group_id
        self._now = now

    def left_ms(self, member_id: str, *kinds: str) -> int | None:
        """The ms that are left of the first of these kinds of deadlines that is set; None if none
        is set."""
        for kind in kinds:
            found = due_in(self._deadlines, (kind, self._group_id, member_id), self._now)
            if found is not None:
                return found
        return None


def _target(state: ShardState, group: ConsumerGroup, now: Instant) -> Iterator[Wait]:
    group_id = group.group_id
    waiting = soft_of(state).waiting_heartbeats.get(group_id)
    if waiting is not None:
        left_ms = due_in(state.deadlines, (PATIENCE, group_id, ""), now)
        count = len(waiting.by_member)
        yield wait(f"parked heartbeats ({count}) wait for the next target", "", left_ms)
    if not group.members or group.group_epoch <= group.assignment_epoch:
        return
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group_id))
    due_ms = group.assignment_timestamp_ms + interval_ms - now.wall_ms
    epoch = f"the target of epoch {group.group_epoch}"
    if deferred_target.is_under_way(group, now):
        yield wait(f"{epoch} is being computed")
    elif deferred_target.has_failed(group, now):
        why = f"{epoch}: the assignor has failed and is tried again"
        yield wait(why, "", deferred_target.RETRY_MS)
    elif 0 < due_ms <= interval_ms:
        why = f"{epoch} is not due yet (group.consumer.assignment.interval.ms)"
        yield wait(why, "", due_ms)
    elif group.rejoin_epoch == group.group_epoch:
        yield wait(f"{epoch} is computed when a member on the classic protocol rejoins")
    elif waiting is None:
        yield wait(f"{epoch} is computed with the next heartbeat of a member")


def _topics(state: ShardState, group: ConsumerGroup, now: Instant) -> Iterator[Wait]:
    if group.group_id in soft_of(state).regex_tasks:
        yield wait("regular expressions are being resolved")
    else:
        unresolved = [one for one in group.regex_subscribers if group.regexes.get(one) is None]
        if unresolved:
            early_ms = group.regexes.refreshed_at_ms + MIN_REFRESH_INTERVAL_MS - now.wall_ms
            in_ms = early_ms if 0 < early_ms <= MIN_REFRESH_INTERVAL_MS else None
            why = f"the next heartbeat resolves the regular expression {min(unresolved)}"
            yield wait(why, "", in_ms)
    if group.members and is_refresh_due(group, now):
        changed = metadata_hash(group, state.image, TopicsChange()) != group.metadata_hash
        if changed:
            yield wait("topics have changed: the next heartbeat makes a new target")


def _partitions(snapshot: _ConsumerSnapshot, deadlines: _Deadlines) -> Iterator[Wait | None]:
    holders: dict[TopicIdPartition, ConsumerGroupMember] = {}
    for found in _wanted(snapshot):
        if found is None:
            yield None
            continue
        member, topic_id, partition = found
        if not holders:
            holders = yield from _held(snapshot)
        holder = holders.get((topic_id, partition))
        if holder is None or holder is member:
            continue
        revoking = partition in holder.pending_revocation.get(topic_id, {})
        topic = topic_name(topic_id, snapshot.image)
        told = "was told to revoke it and has not confirmed"
        not_told = "hears with its next heartbeat that it is to revoke it"
        yield wait(
            f"waits for {topic}-{partition}: {holder.member_id} {told if revoking else not_told}",
            member.member_id,
            deadlines.left_ms(holder.member_id, *((REBALANCE,) if revoking else ()), SESSION),
            topic=topic,
            partition=partition,
            held_by=holder.member_id,
            revoking=revoking,
        )


def _wanted(
    snapshot: _ConsumerSnapshot,
) -> Iterator[tuple[ConsumerGroupMember, TopicId, int] | None]:
    """The partitions of their targets that members do not have yet. None is not an item but a point
    where other work may run."""
    pace = Pace()
    for member in snapshot.members():
        target = snapshot.target(member)
        if pace.due():
            yield None
        for topic_id in sorted(target):
            mine = member.assigned.get(topic_id, {})
            for partition in target[topic_id]:
                if partition not in mine:
                    yield member, topic_id, partition
            if pace.due(1 + len(target[topic_id])):
                yield None


def _held(
    snapshot: _ConsumerSnapshot,
) -> Steps[dict[TopicIdPartition, ConsumerGroupMember]]:
    held: dict[TopicIdPartition, ConsumerGroupMember] = {}
    pace = Pace()
    for member in snapshot.members():
        if pace.due():
            yield
        for topic_id, numbers in chain(member.assigned.items(), member.pending_revocation.items()):
            held.update(((topic_id, number), member) for number in numbers)
            if pace.due(1 + len(numbers)):
                yield
    return held


def _member(
    snapshot: _ConsumerSnapshot, deadlines: _Deadlines, member: ConsumerGroupMember, epoch: int
) -> Wait:
    member_id = member.member_id
    kinds: tuple[str, ...] = (SESSION,)
    if member.member_epoch == LEAVE_STATIC_EPOCH:
        why = "left for a while: what it had is kept until its session ends"
    elif member.state == MemberState.UNREVOKED_PARTITIONS:
        names = [
            f"{topic_name(topic_id, snapshot.image)}-{partition}"
            for topic_id in sorted(member.pending_revocation)
            for partition in sorted(member.pending_revocation[topic_id])
        ]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        what = f"{names[0]}{more}" if names else "partitions"
        why, kinds = f"has to confirm that it gave up {what}", (REBALANCE, JOIN, SESSION)
    elif member.classic is not None:
        joined = deadlines.left_ms(member_id, SYNC) is not None
        why = "has to send SyncGroup" if joined else "has to rejoin"
        kinds = (SYNC, SESSION) if joined else (JOIN, SESSION)
    else:
        why = f"hears of the target of epoch {epoch} with its next heartbeat"
    return wait(why, member_id, deadlines.left_ms(member_id, *kinds))
