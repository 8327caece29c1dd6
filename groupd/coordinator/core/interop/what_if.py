"""What an assignor of the consumer protocol would do with the members of a classic group, which
assign by themselves. Nothing is changed.

The members are converted as an `upgrade` would do it, and then the assignor is tried as on every
consumer group.
"""

from __future__ import annotations

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, State
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.what_if import WHAT_IF
from groupd.coordinator.core.errors import ReplayError, TrialRefused
from groupd.coordinator.core.group_type import AssignorTrial, GroupType, Proposal
from groupd.coordinator.core.interop.upgrade import (
    members_in_steps,
    permits,
    target_as_held,
    work_of,
)
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.core.state import ShardState
from groupd.protocol.consumer_protocol import MalformedSubscription


def with_assignor_trial(classic: GroupType) -> GroupType:
    """The classic type, extended by trials of the assignors of the consumer protocol."""
    return replace(classic, what_if=AssignorTrial(_used, _propose))


def _used(state: ShardState, group: ClassicGroup) -> None:
    """Always None, because the members assign by themselves. Raises TrialRefused."""
    _check(state.config, group)


def _propose(state: ShardState, group: ClassicGroup, name: str) -> Steps[Proposal]:
    _check(state.config, group)
    stable, protocol = group.state is State.STABLE, group.protocol_name
    as_consumer, user_data = yield from _as_consumer_group(group, state.image)
    found = yield from WHAT_IF.propose(state, as_consumer, name)
    if stable:
        now = f"assigned by its members with {protocol}"
    elif any(found.current.values()):
        now = "the group is rebalancing, and these are the partitions that its members had before"
    else:
        now = "the group is rebalancing, and none of its members has partitions yet"
    with_it = f"the assignor {name} of the consumer protocol (group.protocol=consumer)"
    compared = f"Now: {now}. Compared with {with_it}."
    if (obstacle := _obstacle(state.config, user_data)) is not None:
        compared += f" The group's members have to be stopped first: {obstacle}."
    return replace(found, compared=compared)


def _obstacle(config: CoordinatorConfig, user_data: bool) -> str | None:
    """Why the group cannot be converted while it has members; None if it can."""
    if not permits(config):
        return f"group.consumer.migration.policy is {config.consumer_migration_policy}"
    if user_data:
        return "the assignment carries data of their own assignor, which would be lost"
    return None


def _check(config: CoordinatorConfig, group: ClassicGroup) -> None:
    size, most = len(group.members), config.consumer_max_size
    if group.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
        raise TrialRefused(
            f"the protocol type of the group is {group.protocol_type!r}: assignors of the "
            f"coordinator know members of type {CONSUMER_PROTOCOL_TYPE!r} only"
        )
    if group.is_empty():
        raise TrialRefused("the group has no members, so there is nothing to compare")
    if size > most:
        raise TrialRefused(
            f"the group has {size} members, and a consumer group may have no more than {most} "
            "(group.consumer.max.size)"
        )


def _as_consumer_group(
    classic: ClassicGroup, image: MetadataImage
) -> Steps[tuple[ConsumerGroup, bool]]:
    """A consumer group that is in no shard, and whether the assignment has data of a client-side
    assignor. Raises TrialRefused."""
    group = ConsumerGroup(classic.group_id)
    pace = Pace()
    try:
        converted = yield from members_in_steps(classic, image)
        for member in converted.members:
            group.put_member(member)
            group.set_target(member.member_id, target_as_held(member))
            if pace.due(work_of(member)):
                yield
    except MalformedSubscription as error:
        raise TrialRefused(f"what a member sent to the others cannot be read: {error}") from error
    except ReplayError as error:
        raise TrialRefused("the assignment gives one partition to two members") from error
    return group, converted.user_data
