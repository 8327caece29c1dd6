"""One member of a consumer group: plain data, replaced as a whole.

Rule: once a member was put into a group, nothing in it is changed, its partition maps included.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from groupd.protocol.messages import TopicId
from groupd.protocol.messages.consumer_group import TopicPartitions
from groupd.protocol.records.schema import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue

LEAVE_STATIC_EPOCH = -2
"""Member epoch of a static member that left for a while."""

PartitionEpochs = Mapping[TopicId, Mapping[int, int]]
"""Topic id -> partition -> assignment epoch (KIP-1251). There are no empty inner maps."""

NO_PARTITION_EPOCHS: PartitionEpochs = {}
"""Shared by the many members that have nothing to revoke."""


class MemberState(IntEnum):
    """The states, with the values that type-8 records store; any other value is UNKNOWN."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        return _STATES.get(value, cls.UNKNOWN)


_STATES = {int(state): state for state in MemberState}


class ConsumerGroupMember(Struct):
    """A member (docs/spec/consumer-group.md#3 "Member"). `subscribed_topic_names`: sorted, each
    once; `subscribed_topic_regex`: "" for none; `classic`: None if the member is on the consumer
    protocol."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: PartitionEpochs = field(default_factory=lambda: NO_PARTITION_EPOCHS)
    pending_revocation: PartitionEpochs = field(default_factory=lambda: NO_PARTITION_EPOCHS)
    classic: ClassicMemberMetadata | None = None

    def described_by(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue
    ) -> ConsumerGroupMember:
        """The member with the values of a type-5 record."""
        return ConsumerGroupMember(
            member_id,
            self.member_epoch,
            self.previous_member_epoch,
            self.state,
            value.instance_id,
            value.rack_id,
            value.rebalance_timeout_ms,
            value.client_id,
            value.client_host,
            value.subscribed_topic_names,
            value.subscribed_topic_regex or "",
            value.server_assignor,
            self.assigned,
            self.pending_revocation,
            value.classic,
        )

    def at_epoch(
        self,
        member_id: str,
        member_epoch: int,
        previous_member_epoch: int,
        state: MemberState,
        assigned: PartitionEpochs,
        pending_revocation: PartitionEpochs,
    ) -> ConsumerGroupMember:
        """The member with the values of a type-8 record."""
        return ConsumerGroupMember(
            member_id,
            member_epoch,
            previous_member_epoch,
            state,
            self.instance_id,
            self.rack_id,
            self.rebalance_timeout_ms,
            self.client_id,
            self.client_host,
            self.subscribed_topic_names,
            self.subscribed_topic_regex,
            self.server_assignor,
            assigned,
            pending_revocation,
            self.classic,
        )

    def is_described_as(self, other: ConsumerGroupMember) -> bool:
        """Whether both have the same subscription and prefer the same assignor. The check is quick:
        it may return False for equal names in different tuples."""
        return (
            self.subscribed_topic_names is other.subscribed_topic_names
            and self.server_assignor == other.server_assignor
            and self.subscribed_topic_regex == other.subscribed_topic_regex
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.member_epoch == epoch


UNKNOWN_MEMBER = ConsumerGroupMember("")
"""A member of which no record is known yet."""


def topic_partitions(epochs: PartitionEpochs) -> tuple[TopicPartitions, ...]:
    """The partitions of a map in the form of a reply: topics and partitions ascending."""
    return tuple(TopicPartitions(topic, tuple(sorted(epochs[topic]))) for topic in sorted(epochs))


def owns_any(owned: tuple[TopicPartitions, ...] | None, partitions: PartitionEpochs) -> bool:
    """Whether the client reports any of `partitions` as its own. None (unchanged) counts as yes."""
    if owned is None:
        return True
    return any(
        partition in partitions[topic.topic_id]
        for topic in owned
        if topic.topic_id in partitions
        for partition in topic.partitions
    )


def is_subset(owned: tuple[TopicPartitions, ...], partitions: PartitionEpochs) -> bool:
    """Whether all partitions that the client reports are in `partitions`."""
    return all(
        partition in partitions.get(topic.topic_id, ())
        for topic in owned
        for partition in topic.partitions
    )
