"""Builds the records of consumer groups (docs/spec/consumer-group.md#3): R5 is a record of type 5,
T5 its tombstone.

Rule: everything inside a record is sorted, so that equal states give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group.member import (
    NO_PARTITION_EPOCHS,
    ConsumerGroupMember,
    PartitionEpochs,
)
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import (
    AssignedTopic,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    OwnedTopic,
    Record,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """R3."""
    return Record(
        ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash)
    )


def group_epoch_tombstone(group_id: str) -> Record:
    """T3."""
    return Record(ConsumerGroupMetadataKey(group_id))


def partition_metadata_tombstone(group_id: str) -> Record:
    """T4."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id))


def member_metadata(group_id: str, member: ConsumerGroupMember) -> Record:
    """R5."""
    return Record(
        ConsumerGroupMemberMetadataKey(group_id, member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names,
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic=member.classic,
        ),
    )


def member_metadata_tombstone(group_id: str, member_id: str) -> Record:
    """T5."""
    return Record(ConsumerGroupMemberMetadataKey(group_id, member_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """R6."""
    return Record(
        ConsumerGroupTargetMetadataKey(group_id),
        ConsumerGroupTargetMetadataValue(epoch, timestamp_ms),
    )


def target_epoch_tombstone(group_id: str) -> Record:
    """T6."""
    return Record(ConsumerGroupTargetMetadataKey(group_id))


def target_member(group_id: str, member_id: str, target: Assignment) -> Record:
    """R7."""
    topics = tuple([AssignedTopic(topic, tuple(its)) for topic, its in sorted(target.items())])
    return Record(
        ConsumerGroupTargetMemberKey(group_id, member_id), ConsumerGroupTargetMemberValue(topics)
    )


def target_member_tombstone(group_id: str, member_id: str) -> Record:
    """T7."""
    return Record(ConsumerGroupTargetMemberKey(group_id, member_id))


def current_member(group_id: str, member: ConsumerGroupMember) -> Record:
    """R8."""
    return Record(
        ConsumerGroupCurrentMemberKey(group_id, member.member_id),
        ConsumerGroupCurrentMemberValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned=_owned_topics(member.assigned),
            pending_revocation=_owned_topics(member.pending_revocation),
        ),
    )


def current_member_tombstone(group_id: str, member_id: str) -> Record:
    """T8."""
    return Record(ConsumerGroupCurrentMemberKey(group_id, member_id))


def regex(group_id: str, pattern: str, value: ConsumerGroupRegexValue) -> Record:
    """R16."""
    return Record(ConsumerGroupRegexKey(group_id, pattern), value)


def regex_tombstone(group_id: str, pattern: str) -> Record:
    """T16."""
    return Record(ConsumerGroupRegexKey(group_id, pattern))


def member_removal(group_id: str, member_id: str) -> list[Record]:
    """T8, T7, T5."""
    return [
        current_member_tombstone(group_id, member_id),
        target_member_tombstone(group_id, member_id),
        member_metadata_tombstone(group_id, member_id),
    ]


def target_of(value: ConsumerGroupTargetMemberValue) -> Assignment:
    """The assignment that the value of an R7 holds."""
    return {topic.topic_id: topic.partitions for topic in value.topics if topic.partitions}


def partition_epochs(topics: Sequence[OwnedTopic], member_epoch: int) -> PartitionEpochs:
    """The partition map that an R8 holds. If assignment epochs are missing, or their number is not
    that of the partitions (an older writer), the member epoch, at least 0, is used for all of
    them."""
    if not topics:
        return NO_PARTITION_EPOCHS
    epochs: dict[TopicId, dict[int, int]] = {}
    for topic in topics:
        if topic.partitions:
            since = _epochs_of(topic, member_epoch)
            epochs[topic.topic_id] = dict(zip(topic.partitions, since, strict=True))
    return epochs


def _epochs_of(topic: OwnedTopic, member_epoch: int) -> tuple[int, ...]:
    given = topic.assignment_epochs
    if given is None or len(given) != len(topic.partitions):
        return (max(member_epoch, 0),) * len(topic.partitions)
    return given


def _owned_topics(epochs: Mapping[TopicId, Mapping[int, int]]) -> tuple[OwnedTopic, ...]:
    topics: list[OwnedTopic] = []
    for topic_id in sorted(epochs):
        partitions = tuple(sorted(epochs[topic_id]))
        of_topic = epochs[topic_id]
        topics.append(OwnedTopic(topic_id, partitions, tuple(of_topic[p] for p in partitions)))
    return tuple(topics)
