"""ConsumerGroupDescribe of one group (docs/spec/consumer-group.md#9).

Reads the current state. `runtime` holds the reply back until the group's pending records are
durable, so that no client sees what may still be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor
from groupd.coordinator.core.described import may_describe, named_partitions
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.shard_requests import DescribeConsumerGroup
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    Instant,
    Outcome,
    RequestContext,
    Resource,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.consumer_group import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED
from groupd.protocol.messages.lazily import Lazily

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1

MANY_MEMBERS = 100
"""If a group has more members than this, the reply is built later, from a copy of the members as
they are now."""


def handle(
    state: ShardState, context: RequestContext, request: DescribeConsumerGroup, now: Instant
) -> Outcome:
    group = describe(state, context, request.group_id, request.include_authorized_operations)
    return Outcome(replies=[(context.token, group)], gate=request.group_id)


def describe(
    state: ShardState, context: RequestContext, group_id: str, include_operations: bool
) -> DescribedConsumerGroup:
    """Describes one group. Errors are part of the result, because each group of the reply has its
    own. Access to the group was checked before the shard was asked (`frontend.groups`)."""
    if not group_id:
        return DescribedConsumerGroup(group_id, ErrorCode.INVALID_GROUP_ID)
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        known = f"Group {group_id} is not a consumer group."
        missing = f"Group {group_id} not found."
        return DescribedConsumerGroup(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing if group is None else known
        )
    members = [group.members[member_id] for member_id in group.sorted_member_ids()]
    restricted = context.access.restricted
    if restricted and not may_describe(context, _shown_topics(group, members), state.image):
        return DescribedConsumerGroup(
            group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has partitions of topics that the caller may not describe.",
        )
    return DescribedConsumerGroup(
        group_id,
        state=group.state_name(),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0]),
        members=_described(group, members, state.image),
        authorized_operations=(
            context.authorized_operations(Resource.GROUP, group_id)
            if include_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


def _described(
    group: ConsumerGroup, members: list[ConsumerGroupMember], image: MetadataImage
) -> Sequence[DescribedConsumerMember]:
    """The members as they are now, even if the reply is built from them later. Members and targets
    are never changed, only replaced, so a copy of the dict is enough."""
    if len(members) <= MANY_MEMBERS:
        return tuple(_member(member, group.targets, image) for member in members)
    targets = group.targets.copy()
    return Lazily(len(members), lambda: (_member(member, targets, image) for member in members))


def _member(
    member: ConsumerGroupMember, targets: Mapping[str, Assignment], image: MetadataImage
) -> DescribedConsumerMember:
    held: dict[TopicId, list[int]] = {}
    for holdings in (member.assigned, member.pending_revocation):
        for topic_id, partitions in holdings.items():
            held.setdefault(topic_id, []).extend(partitions)
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=named_partitions(held, image),
        target_assignment=named_partitions(targets.get(member.member_id, NO_TARGET), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _shown_topics(group: ConsumerGroup, members: list[ConsumerGroupMember]) -> set[TopicId]:
    found: set[TopicId] = set()
    for member in members:
        target = group.targets.get(member.member_id, NO_TARGET)
        found.update(member.assigned, member.pending_revocation, target)
    return found
