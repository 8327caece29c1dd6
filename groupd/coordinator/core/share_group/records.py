"""Builds the records of share groups (docs/spec/share-group.md#2.1): R10 is a record of type 10,
T10 its tombstone.

Rule: everything inside a record is sorted, so that equal states give equal bytes.
"""

from __future__ import annotations

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.share_group.state_partitions import PartitionSets, StatePartitions
from groupd.protocol.records.schema import (
    AssignedTopic,
    Record,
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
    ShareGroupTargetMetadataValue,
    ShareStatePartitions,
)


def member_metadata(group_id: str, member: ShareGroupMember) -> Record:
    """R10."""
    return Record(
        ShareGroupMemberMetadataKey(group_id, member.member_id),
        ShareGroupMemberMetadataValue(
            member.rack_id, member.client_id, member.client_host, member.subscribed_topic_names
        ),
    )


def member_metadata_tombstone(group_id: str, member_id: str) -> Record:
    """T10."""
    return Record(ShareGroupMemberMetadataKey(group_id, member_id))


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """R11."""
    return Record(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash))


def group_epoch_tombstone(group_id: str) -> Record:
    """T11."""
    return Record(ShareGroupMetadataKey(group_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """R12."""
    return Record(
        ShareGroupTargetMetadataKey(group_id), ShareGroupTargetMetadataValue(epoch, timestamp_ms)
    )


def target_epoch_tombstone(group_id: str) -> Record:
    """T12."""
    return Record(ShareGroupTargetMetadataKey(group_id))


def target_member(group_id: str, member_id: str, target: Assignment) -> Record:
    """R13."""
    return Record(
        ShareGroupTargetMemberKey(group_id, member_id), ShareGroupTargetMemberValue(_topics(target))
    )


def target_member_tombstone(group_id: str, member_id: str) -> Record:
    """T13."""
    return Record(ShareGroupTargetMemberKey(group_id, member_id))


def current_member(group_id: str, member: ShareGroupMember) -> Record:
    """R14."""
    return Record(
        ShareGroupCurrentMemberKey(group_id, member.member_id),
        ShareGroupCurrentMemberValue(
            member.member_epoch, member.previous_member_epoch, assigned=_topics(member.assigned)
        ),
    )


def current_member_tombstone(group_id: str, member_id: str) -> Record:
    """T14."""
    return Record(ShareGroupCurrentMemberKey(group_id, member_id))


def state_partitions(group_id: str, state: StatePartitions) -> Record:
    """R15."""

    def topics(partitions: PartitionSets) -> tuple[ShareStatePartitions, ...]:
        return tuple(
            ShareStatePartitions(topic_id, state.names[topic_id], tuple(sorted(its)))
            for topic_id, its in sorted(partitions.items())
        )

    return Record(
        ShareGroupStatePartitionsKey(group_id),
        ShareGroupStatePartitionsValue(
            topics(state.initializing),
            topics(state.initialized),
            tuple((topic_id, state.names[topic_id]) for topic_id in sorted(state.deleting)),
        ),
    )


def state_partitions_tombstone(group_id: str) -> Record:
    """T15."""
    return Record(ShareGroupStatePartitionsKey(group_id))


def member_removal(group_id: str, member_id: str) -> list[Record]:
    """T14, T13, T10."""
    return [
        current_member_tombstone(group_id, member_id),
        target_member_tombstone(group_id, member_id),
        member_metadata_tombstone(group_id, member_id),
    ]


def _topics(assigned: Assignment) -> tuple[AssignedTopic, ...]:
    return tuple([AssignedTopic(topic, tuple(its)) for topic, its in sorted(assigned.items())])


def assignment_of(topics: tuple[AssignedTopic, ...]) -> Assignment:
    """The assignment that an R13 or R14 holds."""
    return {topic.topic_id: topic.partitions for topic in topics if topic.partitions}


def state_of(value: ShareGroupStatePartitionsValue) -> StatePartitions:
    """What an R15 says."""
    listed = (*value.initializing, *value.initialized)
    names = {topic.topic_id: topic.topic_name for topic in listed} | dict(value.deleting)
    initializing, initialized = (
        {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}
        for topics in (value.initializing, value.initialized)
    )
    deleting = frozenset(topic_id for topic_id, _ in value.deleting)
    known = {*initializing, *initialized, *deleting}
    return StatePartitions(initializing, initialized, deleting, {one: names[one] for one in known})
