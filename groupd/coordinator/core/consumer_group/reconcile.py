"""Reconciliation of one member with its target (docs/spec/consumer-group.md#5; KIP-848).

A member first gives up the partitions that are not in its target. Until its client acknowledges
that, it is in UNREVOKED_PARTITIONS and keeps its epoch. Then it moves to the target epoch and takes
the partitions of its target that are free. If other members still hold some of them, it is in
UNRELEASED_PARTITIONS, else in STABLE. A partition is free when no member holds it, or when the
member itself holds it as pending revocation. So no partition ever has two owners.
"""

from __future__ import annotations

from collections.abc import Container

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import (
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
    owns_any,
)
from groupd.coordinator.core.consumer_group.partition_epochs import FREE, PartitionEpochMap
from groupd.coordinator.core.consumer_group.subscription import EffectiveSubscription
from groupd.coordinator.core.consumer_group.target_assignment import (
    InstalledTarget,
    current_target,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Outcome
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.consumer_group import TopicPartitions

Owned = tuple[TopicPartitions, ...] | None
"""The partitions that the client reports as its own; None = unchanged."""

_Epochs = dict[TopicId, dict[int, int]]
"""`PartitionEpochs` while they are being built."""


def reconcile_member(
    state: ShardState,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    subscription_changed: bool,
    owned: Owned,
    outcome: Outcome,
    installed: InstalledTarget | None = None,
) -> ConsumerGroupMember:
    """Step 3: reconcile the member with its target: [R8]. Returns the member, the same object if it
    does not change. Raises FENCED_MEMBER_EPOCH for a member in an unknown state.

    `subscription_changed`: whether this operation changed the subscription. `installed`: the target
    that this operation has just computed; None if the stored target counts.
    """
    target_epoch = group.assignment_epoch if installed is None else installed.epoch
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    after = reconcile(
        member,
        target_epoch,
        current_target(group, member) if installed is None else installed.of(member.member_id),
        EffectiveSubscription(group, member, state.image),
        group.partition_epochs,
        owned,
        subscription_changed,
    )
    if after is not member:
        outcome.records.append(records.current_member(group.group_id, after))
        outcome.events += events.reconciled(group.group_id, member, after, state.image)
    return after


def reconcile(
    member: ConsumerGroupMember,
    target_epoch: int,
    target: Assignment,
    subscription: EffectiveSubscription,
    holders: PartitionEpochMap,
    owned: Owned,
    subscription_changed: bool,
) -> ConsumerGroupMember:
    """The member after one step towards its target; the same object if nothing changes. Raises
    FENCED_MEMBER_EPOCH for a member in an unknown state, unless its client says that it owns
    nothing."""
    if member.state == MemberState.STABLE:
        if member.member_epoch == target_epoch:
            return _prune(member, subscription, owned) if subscription_changed else member
    elif member.state == MemberState.UNREVOKED_PARTITIONS:
        if owns_any(owned, member.pending_revocation):
            return _prune(member, subscription, owned) if subscription_changed else member
    elif member.state == MemberState.UNKNOWN and (owned is None or owned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The state of the member is unknown to this coordinator: give up all partitions "
            "and join again.",
        )
    return _advance(member, target_epoch, target, subscription, holders, owned)


def _advance(
    member: ConsumerGroupMember,
    target_epoch: int,
    target: Assignment,
    subscription: EffectiveSubscription,
    holders: PartitionEpochMap,
    owned: Owned,
) -> ConsumerGroupMember:
    wanted = {topic: partitions for topic, partitions in target.items() if topic in subscription}
    keep, revoke = _split(member.assigned, wanted)
    if revoke and owns_any(owned, revoke):
        return _changed(member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, keep, revoke)
    free, blocked = _free(member, wanted, keep, holders)
    assigned = keep
    for topic, partitions in free.items():
        epochs = dict(assigned.get(topic, ()))
        epochs.update(dict.fromkeys(partitions, target_epoch))
        assigned[topic] = epochs
    state = MemberState.UNRELEASED_PARTITIONS if blocked else MemberState.STABLE
    return _changed(member, target_epoch, state, assigned, {})


def _split(assigned: PartitionEpochs, wanted: Assignment) -> tuple[_Epochs, _Epochs]:
    """Splits the partitions that the member holds into those that its target has, too, and those
    that it must give up."""
    keep: _Epochs = {}
    revoke: _Epochs = {}
    for topic, epochs in assigned.items():
        target = frozenset(wanted.get(topic, ()))
        kept = {partition: epoch for partition, epoch in epochs.items() if partition in target}
        if kept:
            keep[topic] = kept
        if len(kept) != len(epochs):
            revoke[topic] = {p: epoch for p, epoch in epochs.items() if p not in kept}
    return keep, revoke


def _free(
    member: ConsumerGroupMember,
    wanted: Assignment,
    keep: PartitionEpochs,
    holders: PartitionEpochMap,
) -> tuple[dict[TopicId, list[int]], bool]:
    """The partitions that the member gets now because they are free, and whether other members
    still hold some of those that it wants."""
    free: dict[TopicId, list[int]] = {}
    blocked = False
    for topic, partitions in wanted.items():
        kept = keep.get(topic, {})
        own = member.pending_revocation.get(topic, {})
        for partition in partitions:
            if partition in kept:
                continue
            if holders.get(topic, partition) == FREE or partition in own:
                free.setdefault(topic, []).append(partition)
            else:
                blocked = True
    return free, blocked


def _prune(
    member: ConsumerGroupMember, subscription: EffectiveSubscription, owned: Owned
) -> ConsumerGroupMember:
    """Take away the topics that the member has just unsubscribed from, without waiting for a new
    target."""
    gone = _unsubscribed(member.assigned, subscription)
    # Kafka writes R8 for a member that subscribes to no topic, even if it holds nothing.
    nothing_left = not member.pending_revocation and subscription.is_empty()
    if not gone and not nothing_left:
        return member
    assigned = {topic: epochs for topic, epochs in member.assigned.items() if topic not in gone}
    pending = dict(member.pending_revocation)
    for topic, epochs in gone.items():
        pending[topic] = {**pending.get(topic, {}), **epochs}
    if pending and owns_any(owned, pending):
        state = MemberState.UNREVOKED_PARTITIONS
        return _changed(member, member.member_epoch, state, assigned, pending)
    return _changed(member, member.member_epoch, member.state, assigned, member.pending_revocation)


def _unsubscribed(assigned: PartitionEpochs, subscription: Container[TopicId]) -> PartitionEpochs:
    return {topic: epochs for topic, epochs in assigned.items() if topic not in subscription}


def _changed(
    member: ConsumerGroupMember,
    epoch: int,
    state: MemberState,
    assigned: PartitionEpochs,
    pending: PartitionEpochs,
) -> ConsumerGroupMember:
    """The member with these values, and its current epoch as the previous one. Returns the same
    object if nothing changes, so that no record is written."""
    unchanged = (
        epoch == member.member_epoch == member.previous_member_epoch
        and state == member.state
        and assigned == member.assigned
        and pending == member.pending_revocation
    )
    if unchanged:
        return member
    return member.at_epoch(member.member_id, epoch, member.member_epoch, state, assigned, pending)
