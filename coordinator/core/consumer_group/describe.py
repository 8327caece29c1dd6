"""ConsumerGroupDescribe of one group (spec 9).

Reads the state as it stands; the shell lets the reply wait for the group's pending records, so
that nobody learns of what may still be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from coordinator.core.consumer_group.member import ConsumerGroupMember
from coordinator.core.consumer_group.subscription import preferred_assignor
from coordinator.core.metadata_image import MetadataImage
from coordinator.core.state import ShardState
from coordinator.core.types import Operation, RequestContext, Resource
from protocol.errors import ErrorCode
from protocol.messages import TopicId
from protocol.messages.consumer_group import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedTopicPartitions,
)
from protocol.messages.groups import OPERATIONS_NOT_ASKED

GROUP_OPERATIONS = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
"""What can be allowed on a group; the bits of `authorized_operations`."""

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def describe(
    state: ShardState, context: RequestContext, group_id: str, include_operations: bool
) -> DescribedConsumerGroup:
    """One group of the reply. Errors stand in the result, because each group has its own; access
    to the group was checked before the shard was asked (`frontend.consumer_group`)."""
    if not group_id:
        return DescribedConsumerGroup(group_id, ErrorCode.INVALID_GROUP_ID)
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        known = f"Group {group_id} is not a consumer group."
        missing = f"Group {group_id} not found."
        return DescribedConsumerGroup(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing if group is None else known
        )
    members = tuple(
        _member(group, group.members[member_id], state.image)
        for member_id in group.sorted_member_ids()
    )
    if not _may_describe_topics(context, members):
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
        members=members,
        authorized_operations=(
            authorized_operations(context, group_id) if include_operations else OPERATIONS_NOT_ASKED
        ),
    )


def authorized_operations(context: RequestContext, group_id: str) -> int:
    """Bit field over operation codes."""
    return sum(
        1 << operation
        for operation in GROUP_OPERATIONS
        if context.allows(operation, Resource.GROUP, group_id)
    )


def _member(
    group: ConsumerGroup, member: ConsumerGroupMember, image: MetadataImage
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
        assignment=_named(held, image),
        target_assignment=_named(group.targets.get(member.member_id, NO_TARGET), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _named(
    partitions: Mapping[TopicId, Iterable[int]], image: MetadataImage
) -> tuple[NamedTopicPartitions, ...]:
    """Without topics that do not exist any more."""
    return tuple(
        NamedTopicPartitions(
            topic_id, image.by_id[topic_id].name, tuple(sorted(partitions[topic_id]))
        )
        for topic_id in sorted(partitions)
        if topic_id in image.by_id
    )


def _may_describe_topics(
    context: RequestContext, members: Iterable[DescribedConsumerMember]
) -> bool:
    topics = {
        topic.topic_name
        for member in members
        for topic in (*member.assignment, *member.target_assignment)
    }
    return all(
        context.allows(Operation.DESCRIBE, Resource.TOPIC, topic) for topic in sorted(topics)
    )
