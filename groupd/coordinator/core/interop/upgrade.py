"""A classic group becomes a consumer group (docs/spec/consumer-group.md#8 "Upgrade").

The conversion consists of records: the tombstone of the classic group and everything that builds
the consumer group, in the same write as what the joining member adds. Until they are replayed, the
handler works with a consumer group built from those records. The classic group is not changed until
nothing can fail any more. Then `_finish` answers its parked requests, and the replayed tombstone
removes it with its timers.

The generation becomes the group epoch and all other epochs, and every member keeps what its last
assignment gave it. So the conversion itself moves no partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember, Protocols
from groupd.coordinator.core.classic_group.operation import GroupOperation
from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.conversions import Conversion, JoinedGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import (
    ConsumerGroupMember,
    PartitionEpochs,
)
from groupd.coordinator.core.consumer_group.replay import APPLIERS
from groupd.coordinator.core.consumer_group.subscription import TopicsChange, metadata_hash
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.interop.classic_members import arm_session
from groupd.coordinator.core.interop.embedded_protocol import (
    claim_of,
    classic_metadata,
    subscription_of,
    target_of,
)
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Pace, Steps, run_through, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.topic_names import canonical_names
from groupd.coordinator.core.types import EventKind, Instant, Outcome
from groupd.protocol.consumer_protocol import (
    EmbeddedSubscription,
    MalformedSubscription,
    parse_subscription,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.classic_group import JoinGroupReply, SyncGroupReply
from groupd.protocol.records.schema import Record

MEMBER_WORK = 32
"""The work that a member is, in items of `Pace`, beside its topics and partitions."""

_PERMITTING = frozenset({"bidirectional", "upgrade"})
_CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
    "default assignor before re-attempting the upgrade."
)


def joined(state: ShardState, group: Group) -> JoinedGroup | None:
    """The consumer group that a heartbeat makes of this group; None for a group that is not
    classic. Changes nothing. Raises GROUP_ID_NOT_FOUND with the reason if the group cannot be
    converted."""
    if not isinstance(group, ClassicGroup):
        return None
    if group.is_empty():
        return JoinedGroup(ConsumerGroup(group.group_id), True, group.tombstones())
    return _convert(state, group)


def _convert(state: ShardState, classic: ClassicGroup) -> JoinedGroup:
    _check(state.config, classic)
    try:
        found = run_through(members_in_steps(classic, state.image))
        if found.user_data:
            raise _refused(classic, _CUSTOM_ASSIGNOR)
        return _built(state, classic, found.members)
    except MalformedSubscription as error:
        raise _refused(classic, "the embedded consumer protocol is malformed.") from error
    except ReplayError as error:
        # Only a faulty client-side assignor causes this. Kafka answers UNKNOWN_SERVER_ERROR.
        raise _refused(classic, "its assignment gives one partition to two members.") from error


def _check(config: CoordinatorConfig, classic: ClassicGroup) -> None:
    if not permits(config):
        raise _refused(classic, "online upgrade is disabled.")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > config.consumer_max_size:
        raise _refused(classic, "the group size exceeds the consumer group maximum size.")


def _refused(classic: ClassicGroup, reason: str) -> ApiError:
    """The refusal of a conversion, in Kafka's words, because tools and people look for them."""
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}",
    )


class ConvertedMembers(Struct, frozen=True):
    """The members, ascending by id. `user_data`: whether an assignment has data of a client-side
    assignor."""

    members: list[ConsumerGroupMember]
    user_data: bool


def members_in_steps(classic: ClassicGroup, image: MetadataImage) -> Steps[ConvertedMembers]:
    """The members as a consumer group has them: STABLE at the generation, with the partitions that
    they are taken to own. These are those of the member's last assignment. If an interrupted
    rebalance has cleared the assignment, they are those that the member reported as its own when it
    joined, unless another member has them. Kafka frees these, although a cooperative member still
    reads them.

    The group may change between the steps; its form at the first step counts. Raises
    MalformedSubscription, which names the member.
    """
    epoch, chosen = classic.generation, classic.protocol_name
    # Members are changed in place, so what may change is copied at once. A comprehension without a
    # function call for each member takes a millisecond for ten thousand members.
    now = {
        member_id: (member, member.protocols, member.assignment)
        for member_id, member in classic.members.items()
    }
    before = classic.held_assignments
    members: list[ConsumerGroupMember] = []
    claiming: list[ConsumerGroupMember] = []
    user_data = False
    pace = Pace()
    for member_id in (yield from sorted_in_steps(now)):
        member, protocols, assignment = now[member_id]
        last = before.get(member_id, assignment)
        try:
            subscription = _subscription(protocols, chosen)
            held, carries = (
                target_of(last, image) if last else (claim_of(subscription, image), False)
            )
        except MalformedSubscription as error:
            raise MalformedSubscription(f"member {member_id}: {error}") from error
        user_data = user_data or carries
        made = _member(member_id, member, protocols, subscription, held, epoch)
        members.append(made)
        if not last:
            claiming.append(made)
        if pace.due(work_of(made)):
            yield
    if claiming:
        taken = yield from _taken(members)
        for made in claiming:
            made.assigned = _unshared(made.assigned, taken)
            if pace.due(work_of(made)):
                yield
    return ConvertedMembers(members, user_data)


def permits(config: CoordinatorConfig) -> bool:
    """Whether the migration policy lets groups with members be converted."""
    return config.consumer_migration_policy in _PERMITTING


def work_of(member: ConsumerGroupMember) -> int:
    """The work that a member is, in items of `Pace`."""
    names = len(member.subscribed_topic_names)
    return MEMBER_WORK + names + sum(map(len, member.assigned.values()))


_Taken = Counter[tuple[TopicId, int]]
"""For each partition, how many members have it or report it as their own."""


def _taken(members: Iterable[ConsumerGroupMember]) -> Steps[_Taken]:
    taken: _Taken = Counter()
    pace = Pace()
    for member in members:
        for topic, numbers in member.assigned.items():
            taken.update((topic, number) for number in numbers)
        if pace.due(work_of(member)):
            yield
    return taken


def _unshared(claim: PartitionEpochs, taken: _Taken) -> PartitionEpochs:
    alone = {
        topic: {number: epoch for number, epoch in epochs.items() if taken[topic, number] == 1}
        for topic, epochs in claim.items()
    }
    return {topic: epochs for topic, epochs in alone.items() if epochs}


def _member(
    member_id: str,
    member: ClassicGroupMember,
    protocols: Protocols,
    subscription: EmbeddedSubscription,
    held: Assignment,
    epoch: int,
) -> ConsumerGroupMember:
    return ConsumerGroupMember(
        member_id,
        epoch,
        epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=canonical_names(subscription.topics),
        assigned={topic: dict.fromkeys(partitions, epoch) for topic, partitions in held.items()},
        classic=classic_metadata(member.session_timeout_ms, protocols),
    )


def _subscription(protocols: Protocols, chosen: str | None) -> EmbeddedSubscription:
    """The member's subscription for the chosen protocol. If none is chosen, or a member that
    rejoined does not offer the chosen one any more, it is that of its first protocol."""
    for protocol in protocols:
        if protocol.name == chosen:
            return parse_subscription(protocol.metadata)
    return subscription_of(protocols)


def _built(
    state: ShardState, classic: ClassicGroup, members: list[ConsumerGroupMember]
) -> JoinedGroup:
    """The conversion: R5*, R3, R7*, R6, R8*, and the group that they build. Raises ReplayError."""
    group_id, epoch = classic.group_id, classic.generation
    scratch = replace(state, groups={})
    metadata = [records.member_metadata(group_id, member) for member in members]
    _replay(scratch, metadata)
    group = scratch.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    rest = [records.group_epoch(group_id, epoch, metadata_hash(group, state.image, TopicsChange()))]
    rest += [records.target_member(group_id, one.member_id, target_as_held(one)) for one in members]
    # Timestamp 0: the joining member must not wait for the assignment interval.
    rest.append(records.target_epoch(group_id, epoch, 0))
    rest += [records.current_member(group_id, one) for one in members]
    _replay(scratch, rest)
    event = events.event(
        EventKind.GROUP_CONVERTED,
        group_id,
        epoch=epoch,
        cause="a member on the consumer protocol joined the classic group",
        details={"from": "classic", "to": "consumer", "members": len(members)},
    )
    return JoinedGroup(
        group,
        records=[*classic.tombstones(), *metadata, *rest],
        conversion=Conversion(event, partial(_finish, state, classic)),
    )


def _finish(state: ShardState, classic: ClassicGroup, now: Instant, outcome: Outcome) -> None:
    """Write soft state: parked requests of the classic group are answered with
    REBALANCE_IN_PROGRESS, and every member gets a session with its own timeout."""
    again = ErrorCode.REBALANCE_IN_PROGRESS
    op = GroupOperation(state, classic, now)
    for member in classic.sorted_members():
        op.answer_join(member, JoinGroupReply(again, member_id=member.member_id))
        op.answer_sync(member, SyncGroupReply(again))
        arm_session(state, classic.group_id, member.member_id, member.session_timeout_ms, now)
    outcome.urgent += op.outcome.urgent


def target_as_held(member: ConsumerGroupMember) -> Assignment:
    """The target of a member that already has all of its target."""
    return {topic: tuple(sorted(epochs)) for topic, epochs in member.assigned.items()}


def _replay(scratch: ShardState, conversion: list[Record]) -> None:
    for record in conversion:
        APPLIERS[type(record.key)](scratch, record.key, record.value)
