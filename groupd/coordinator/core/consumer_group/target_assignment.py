"""The target assignment of a consumer group: when one is due, and how it is computed
(docs/spec/consumer-group.md#6).

There is one computation, `compute`. It takes a `GroupSnapshot`, calls the assignor, checks its
result, and finds the members whose target changes. The task of a large group runs it in slices, and
other requests are served in between (`deferred_target`). All other callers run it in one go with
`install`, as part of their own operation.

The assignor may be a plug-in. So its result may name only members of the group, only topics that
the member subscribes to, only partitions that exist, and no partition twice.

A member learns of new partitions with its next heartbeat (ADR 25). So an assignor that is free to
choose who gets partitions that no member has should choose the members whose next heartbeat comes
first: those whose heartbeats wait for this very target, then those whose last heartbeat is the
longest ago. A member whose heartbeat is overdue may be dead, and partitions that it gets would not
be consumed until its session ends. Such members come last, as do members that cannot take anything
with their next heartbeat.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    PartitionAssignor,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.run import assigned_steps
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.configs import (
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from groupd.coordinator.core.consumer_group.group import NO_TARGET, SESSION, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.subscription import EffectiveSubscription
from groupd.coordinator.core.epochs import is_next_target_due
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Steps, run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome
from groupd.protocol.messages import TopicId

SLICE_MEMBERS = 256
"""At most this many members are collected, checked or compared in one slice."""

SLICE_PARTITIONS = 8192
"""At most about this many partitions are checked in one slice."""

LATE_SHARE = 20
"""Once a heartbeat is late by more than this part (a twentieth) of the heartbeat interval, its
member counts as silent and is chosen last."""

EARLIEST = -(1 << 62)
"""The expected time of a member whose heartbeat waits for this target."""

LATEST = 1 << 62
"""The expected time of a member that may be dead, or that cannot take partitions with its next
heartbeat."""

SubscriptionKey = tuple[tuple[str, ...], str]
"""The topic names and the regular expression of a member."""


def current_target(group: ConsumerGroup, member: ConsumerGroupMember) -> Assignment:
    """The stored target of a member. For a static member it is that of the member id that its
    instance has in the group."""
    owner = group.static_members.get(member.instance_id) if member.instance_id else None
    return group.targets.get(owner or member.member_id, NO_TARGET)


def is_target_due(state: ShardState, group: ConsumerGroup, group_epoch: int, now: Instant) -> bool:
    """`is_next_target_due` with the assignment interval of the group."""
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    return is_next_target_due(group, group_epoch, interval_ms, now)


class GroupSnapshot:
    """Members and their stored targets at one moment. Both are immutable, so copies of the two
    dictionaries are enough, and the group may change while the snapshot is used.

    `updated`: a member as the current operation changes it, possibly not yet in the group. It takes
    the place, and the target, of the static member `replaced_id`.
    """

    __slots__ = ("_group", "_topic_ids", "image", "member_ids", "members", "targets")

    def __init__(
        self,
        group: ConsumerGroup,
        image: MetadataImage,
        updated: ConsumerGroupMember | None = None,
        replaced_id: str | None = None,
    ) -> None:
        self._group = group
        self.image = image
        self._topic_ids: dict[SubscriptionKey, frozenset[TopicId]] = {}
        self.member_ids = list(group.sorted_member_ids())
        self.members = dict(group.members)
        self.targets = dict(group.targets)
        if updated is None:
            return
        if replaced_id is not None:
            self.member_ids.remove(replaced_id)
            del self.members[replaced_id]
            self.targets[updated.member_id] = self.targets.pop(replaced_id, NO_TARGET)
        if updated.member_id not in self.members:
            insort(self.member_ids, updated.member_id)
        self.members[updated.member_id] = updated

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NO_TARGET)

    def collect(self) -> Steps[dict[str, MemberSpec]]:
        """Returns the members, ascending by id, as an assignor sees them; yields between slices."""
        specs: dict[str, MemberSpec] = {}
        for member_id in self.member_ids:
            member = self.members[member_id]
            specs[member_id] = MemberSpec(
                self._subscribed(member),
                # Read-only, so that a plug-in cannot change what the group has stored.
                MappingProxyType(self.target(member_id)),
                member.instance_id,
                member.rack_id,
            )
            if len(specs) % SLICE_MEMBERS == 0:
                yield
        return specs

    def _subscribed(self, member: ConsumerGroupMember) -> frozenset[TopicId]:
        key = (member.subscribed_topic_names, member.subscribed_topic_regex)
        found = self._topic_ids.get(key)
        if found is None:
            found = EffectiveSubscription(self._group, member, self.image).topic_ids()
            self._topic_ids[key] = found
        return found

    def subscription_type(self) -> SubscriptionType:
        """The type of the subscriptions; to be called once all members are collected."""
        return subscription_type(list(self._topic_ids))


def subscription_type(subscriptions: list[SubscriptionKey]) -> SubscriptionType:
    """HOMOGENEOUS if all members have the same names, or all have the same expression and no names.
    `subscriptions`: the different subscriptions, each once."""
    if len(subscriptions) > 1 or any(names and pattern for names, pattern in subscriptions):
        return SubscriptionType.HETEROGENEOUS
    return SubscriptionType.HOMOGENEOUS


class InstalledTarget(NamedTuple):
    """A target whose records are in the outcome of this operation, and not yet in the group."""

    epoch: int
    changed: Mapping[str, Assignment]
    before: GroupSnapshot

    def of(self, member_id: str) -> Assignment:
        return self.changed.get(member_id, self.before.target(member_id))


def compute(
    snapshot: GroupSnapshot,
    assignor: PartitionAssignor | None,
    name: str,
    next_heartbeat: Callable[[str], int] | None,
) -> Steps[dict[str, Assignment]]:
    """Returns the new targets of the members whose target changes, ascending by member id; yields
    between slices. `name`: the name of `assignor`, which is None if it is not configured any more;
    `next_heartbeat`: see `next_heartbeat_times`.

    Raises AssignorFailed if the assignor raises or its result is not accepted.
    """
    if assignor is None:
        raise AssignorFailed(name, "the preferred assignor is not configured")
    members = yield from snapshot.collect()
    spec = AssignmentSpec(
        members, snapshot.subscription_type(), keep_order=True, next_heartbeat=next_heartbeat
    )
    topics = ImageDescriber(snapshot.image)
    targets = yield from assigned_steps(assignor, name, spec, topics, check_steps)
    changed: dict[str, Assignment] = {}
    for count, (member_id, target) in enumerate(targets.items()):
        # A member without a stored target needs a record even if its new target is empty.
        stored = snapshot.targets.get(member_id)
        if stored is None or (target is not stored and target != stored):
            changed[member_id] = target
        if count % SLICE_MEMBERS == 0:
            yield
    return changed


def install(
    state: ShardState,
    group: ConsumerGroup,
    group_epoch: int,
    name: str,
    now: Instant,
    outcome: Outcome,
    updated: ConsumerGroupMember | None = None,
    replaced_id: str | None = None,
) -> InstalledTarget:
    """Compute the target of `group_epoch` in one go with the assignor `name`, and add its records,
    R7* R6, to the outcome. `updated`, `replaced_id`: see `GroupSnapshot`. Raises AssignorFailed."""
    updated_id = None if updated is None else updated.member_id
    snapshot = GroupSnapshot(group, state.image, updated, replaced_id)
    next_heartbeat = next_heartbeat_times(state, group, now, updated_id)
    changed = run_through(compute(snapshot, state.assignors.get(name), name, next_heartbeat))
    group_id = group.group_id
    for member_id, target in changed.items():
        outcome.records.append(records.target_member(group_id, member_id, target))
    outcome.records.append(records.target_epoch(group_id, group_epoch, now.wall_ms))
    installed = events.target_installed(
        group_id, group_epoch, name, moved=len(changed), members=len(snapshot.member_ids)
    )
    outcome.events.append(installed)
    return InstalledTarget(group_epoch, changed, snapshot)


def check_steps(
    result: Any, spec: GroupSpec, topics: TopicDescriber
) -> Steps[dict[str, Assignment]]:
    """Returns the assignor's `result` with an entry for every member, topics and partitions
    ascending and without empty topics; yields between slices. Raises AssignorError, which names the
    first fault."""
    unknown = sorted(map(str, set(result) - spec.members.keys()))
    if unknown:
        raise AssignorError(f"{unknown[0]} is not a member of the group")
    targets: dict[str, Assignment] = {}
    taken: dict[TopicId, bytearray] = {}
    partitions = 0
    for member_id, member in spec.members.items():
        given = result.get(member_id, NO_TARGET)
        # An assignment that was checked before is sorted, but the assignor may have given it to
        # another member, too.
        target = given if given is member.assigned else _sorted(given)
        targets[member_id] = target
        partitions += _check_member(member_id, member, target, topics, taken)
        if len(targets) % SLICE_MEMBERS == 0 or partitions >= SLICE_PARTITIONS:
            partitions = 0
            yield
    return targets


def _sorted(given: Mapping[TopicId, Any]) -> Assignment:
    return {topic: tuple(sorted(given[topic])) for topic in sorted(given) if given[topic]}


def _check_member(
    member_id: str,
    member: MemberSpec,
    target: Assignment,
    topics: TopicDescriber,
    taken: dict[TopicId, bytearray],
) -> int:
    """Checks the assignment of one member and returns how many partitions it has. `taken`: by
    topic, one byte for each partition, 1 if the partition is assigned already."""
    count = 0
    for topic_id, partitions in target.items():
        if topic_id not in member.topic_ids:
            raise _fault(
                member_id, "partitions of {topic}, to which it is not subscribed", topic_id, topics
            )
        of_topic = taken.get(topic_id)
        if of_topic is None:
            of_topic = taken[topic_id] = bytearray(max(topics.num_partitions(topic_id), 0))
        for partition in partitions:
            if type(partition) is not int:
                raise _fault(
                    member_id, "something that is no partition number of {topic}", topic_id, topics
                )
            if not 0 <= partition < len(of_topic):
                what = "a partition that {topic} does not have: " + str(partition)
                raise _fault(member_id, what, topic_id, topics)
            if of_topic[partition]:
                raise _fault(
                    member_id, "a partition of {topic} that is handed out twice", topic_id, topics
                )
            of_topic[partition] = 1
        count += len(partitions)
    return count


def _fault(member_id: str, what: str, topic_id: TopicId, topics: TopicDescriber) -> AssignorError:
    return AssignorError(
        f"{member_id} got {what.format(topic=topics.name(topic_id) or topic_id.hex())}"
    )


def next_heartbeat_times(
    state: ShardState, group: ConsumerGroup, now: Instant, asking_id: str | None = None
) -> Callable[[str], int]:
    """Returns a function from member id to the monotonic time in ms of the member's next heartbeat,
    EARLIEST or LATEST. The function uses the state at the time when it is called, which may be
    long after this call.

    `asking_id`: the member whose request is answered with this target, if no heartbeats wait for
    it.

    The times are computed from the session deadlines, soft state of the shard. After a restart all
    sessions begin at the same time, so the order is that of member ids.
    """
    group_id = group.group_id
    overrides = state.group_configs.get(group_id)
    timeout_ms = session_timeout_ms(state.config, overrides)
    interval_ms = heartbeat_interval_ms(state.config, overrides)
    silent_ms = now.monotonic_ms - interval_ms - interval_ms // LATE_SHARE
    deadlines, heartbeats = state.deadlines, soft_of(state).waiting_heartbeats

    def expected_ms(member_id: str) -> int:
        member = group.members.get(member_id)
        if member is not None and member.state == MemberState.UNREVOKED_PARTITIONS:
            return LATEST
        waiting = heartbeats.get(group_id)
        if member_id == asking_id if waiting is None else member_id in waiting.by_member:
            return EARLIEST
        if member is None or member.member_epoch == LEAVE_STATIC_EPOCH:
            return LATEST
        ends_ms = deadlines.due((SESSION, group_id, member_id))
        # A member on the classic protocol learns of its assignment in other ways.
        if ends_ms is None or member.classic is not None:
            return LATEST
        heard_ms = ends_ms - timeout_ms
        return heard_ms + interval_ms if heard_ms >= silent_ms else LATEST

    return expected_ms
