"""A consumer group becomes a classic group again (docs/spec/consumer-group.md#8 "Downgrade").

(a) Members leave and only members on the classic protocol stay: `without_members`. (b) A static
member on the classic protocol takes the place of the only member on the consumer protocol:
`replacing` and `install`.

As with every change to a classic group, the handler makes the ClassicGroup itself and the records
describe it afterwards: parked requests, timers, and the protocols that the record does not hold
exist only in the object. The replay of the records ends the consumer group and puts that object in
its place (`changed_groups`). If the records are refused, the consumer group stays, and `appended`
gives its members fresh sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.classic_group import appended as classic_appended
from groupd.coordinator.core.classic_group import rebalance
from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, State
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.operation import OWNER as CLASSIC_OWNER
from groupd.coordinator.core.classic_group.operation import (
    GroupCreated,
    GroupOperation,
    changed_groups,
)
from groupd.coordinator.core.classic_group.replay import group_record
from groupd.coordinator.core.consumer_group import events
from groupd.coordinator.core.consumer_group import timers as consumer_timers
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.timers import (
    cancel_member,
)
from groupd.coordinator.core.interop.embedded_protocol import assignment_bytes, join_protocols
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    Event,
    EventKind,
    Instant,
    Outcome,
)
from groupd.protocol.consumer_protocol import (
    MalformedSubscription,
    parse_subscription,
)
from groupd.protocol.records.schema import Record

OWNER = "downgrade"
"""The owner of completions whose data is a `Downgraded`."""

_PERMITTING = frozenset({"bidirectional", "downgrade"})


class Downgraded(Struct, frozen=True):
    """`previous`: the consumer group that `group` has replaced in memory."""

    group: ClassicGroup
    previous: ConsumerGroup


def permitted_replacing(
    config: CoordinatorConfig, group: ConsumerGroup, owner: ConsumerGroupMember
) -> bool:
    """Whether case (b) is permitted: `owner` is the only member on the consumer protocol."""
    return (
        owner.classic is None
        and _permits(config, len(group.members))
        and group.is_classic_only({owner.member_id})
    )


def without_members(
    state: ShardState,
    group: ConsumerGroup,
    leaving: Sequence[ConsumerGroupMember],
    kind: EventKind,
    cause: str,
    now: Instant,
    causes: Mapping[str, str],
) -> Outcome | None:
    """Case (a): the outcome that makes the group classic. The classic group rebalances at once,
    because the partitions of the members that left have no owner. None if that is not permitted, or
    the protocols of the members that stay make no classic group."""
    gone = {member.member_id for member in leaving}
    if not (_permits(state.config, len(group.members) - len(gone)) and group.is_classic_only(gone)):
        return None
    staying = [group.members[one] for one in group.sorted_member_ids() if one not in gone]
    classic = _classic_group(group, staying, group.targets, state.image, now)
    if classic is None:
        return None
    outcome = Outcome(gate=group.group_id)
    for member in leaving:
        own = causes.get(member.member_id, cause)
        outcome.events.append(events.member_removed(kind, group.group_id, member, own, state.image))
    install(state, group, classic, group.tombstones(), outcome, now, rebalances=True)
    return outcome


def replacing(
    state: ShardState,
    group: ConsumerGroup,
    owner: ConsumerGroupMember,
    joining: ConsumerGroupMember,
    now: Instant,
) -> ClassicGroup | None:
    """Case (b): the classic group in which `joining` has the place and the target of `owner`.
    Changes nothing. None if the protocols of the members make no classic group."""
    members = [one for one in group.members.values() if one is not owner]
    members.append(joining)
    members.sort(key=lambda member: member.member_id)
    targets = dict(group.targets)
    targets[joining.member_id] = group.targets.get(owner.member_id, NO_TARGET)
    return _classic_group(group, members, targets, state.image, now)


def install(
    state: ShardState,
    group: ConsumerGroup,
    classic: ClassicGroup,
    tombstones: list[Record],
    outcome: Outcome,
    now: Instant,
    *,
    rebalances: bool,
) -> None:
    """Put `classic` in the place of `group`: the records first, then memory. Nothing may fail after
    this.

    The record of a group says Stable even if the group rebalances. If the shard were loaded before
    the rebalance is over, partitions of the target could stay without an owner. So the record of a
    group that rebalances has no leader, and a group without a leader rebalances when it is loaded.
    """
    leader_id = classic.leader_id
    if rebalances:
        classic.leader_id = None
    record = group_record(classic)
    outcome.records += [*tombstones, record]
    changed_groups(state).note(record, classic)
    classic.leader_id = leader_id
    outcome.completion = Completion(OWNER, Downgraded(classic, group))
    outcome.events.append(
        Event(
            classic.type_name,
            EventKind.GROUP_CONVERTED,
            group.group_id,
            epoch=classic.generation,
            cause="no member is left on the consumer protocol",
            details={"from": "consumer", "to": "classic", "members": len(classic.members)},
        )
    )
    for member_id in group.members:
        cancel_member(state.deadlines, group.group_id, member_id)
    op = GroupOperation(state, classic, now)
    for member in classic.members.values():
        op.arm_member(member)
    if rebalances:
        rebalance.prepare(op, "the group was a consumer group")
    else:
        classic.held_assignments = {}
    # No member has joined yet, so the join phase has only begun: no records, no answers.
    outcome.events += op.outcome.events


def _permits(config: CoordinatorConfig, size: int) -> bool:
    return config.consumer_migration_policy in _PERMITTING and 0 < size <= config.group_max_size


def _classic_group(
    group: ConsumerGroup,
    members: Iterable[ConsumerGroupMember],
    targets: Mapping[str, Assignment],
    image: MetadataImage,
    now: Instant,
) -> ClassicGroup | None:
    """The classic group: Stable at the group epoch, every member with its target. None if the
    members have no protocol in common or one of their protocols cannot be read; only a log that was
    written elsewhere can hold such members."""
    classic = ClassicGroup(
        group.group_id,
        state=State.STABLE,
        state_timestamp_ms=now.wall_ms,
        generation=group.group_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    held: dict[str, bytes] = {}
    for member in members:
        classic.add(_member(member), CONSUMER_PROTOCOL_TYPE)
        held[member.member_id] = _held(member, image)
    classic.held_assignments = held
    offered = [one for member in classic.members.values() for one in member.protocols]
    if not classic.supports(CONSUMER_PROTOCOL_TYPE, offered):
        return None
    classic.protocol_name = classic.vote()
    for member_id, member_ in classic.members.items():
        try:
            version = parse_subscription(member_.metadata(classic.protocol_name)).version
        except MalformedSubscription:
            return None
        target = targets.get(member_id, NO_TARGET)
        member_.assignment = assignment_bytes(target, version, image)
    classic.refresh_subscription()
    return classic


def _held(member: ConsumerGroupMember, image: MetadataImage) -> bytes:
    """The member's assignment as bytes: all partitions that the member may still be reading, which
    need not be its target. The group may become a consumer group again before the member has got a
    new assignment."""
    held = {topic: set(epochs) for topic, epochs in member.assigned.items()}
    for topic, epochs in member.pending_revocation.items():
        held.setdefault(topic, set()).update(epochs)
    return assignment_bytes(held, 0, image)


def _member(member: ConsumerGroupMember) -> ClassicGroupMember:
    assert member.classic is not None, "only members on the classic protocol stay"
    session_timeout_ms = member.classic.session_timeout_ms
    return ClassicGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        session_timeout_ms if member.rebalance_timeout_ms == -1 else member.rebalance_timeout_ms,
        session_timeout_ms,
        join_protocols(member.classic),
    )


def appended(
    state: ShardState, completion: Completion, error: AppendError | None, now: Instant
) -> Outcome:
    """Handles a completion whose owner is `downgrade.OWNER`. If the append failed, the classic
    group is removed: members that wait in it get the error. The consumer group stays, and its
    members have full sessions, also those that were about to be fenced; their next expiry tries
    again."""
    assert completion.owner == OWNER
    done: Downgraded = completion.data
    created = Completion(CLASSIC_OWNER, GroupCreated(done.group, done.previous))
    outcome = classic_appended.appended(state, created, error, now)
    if error is not None and state.groups.get(done.previous.group_id) is done.previous:
        consumer_timers.restart(state, done.previous, now)
    return outcome
