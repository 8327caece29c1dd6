"""KIP-848: ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId


class TopicPartitions(Struct, frozen=True):
    """Partitions of one topic, in the order in which they were sent."""

    topic_id: TopicId
    partitions: tuple[int, ...]


class ConsumerGroupHeartbeatRequest(Struct, frozen=True):
    """A field that is None (-1 for the timeout) is unchanged since the last heartbeat.
    `member_epoch`: > 0 is the member's current epoch, 0 joins (again), -1 leaves, -2 is a static
    member that leaves for a while."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class ConsumerGroupHeartbeatReply(Struct, frozen=True):
    """`assignment` None = unchanged; an empty tuple = the member is to own no partition."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicPartitions, ...] | None = None


class ConsumerGroupDescribeRequest(Struct, frozen=True):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


class NamedTopicPartitions(Struct, frozen=True):
    topic_id: TopicId
    topic_name: str
    partitions: tuple[int, ...]


class DescribedConsumerMember(Struct, frozen=True):
    """`member_type`: 0 classic, 1 consumer, -1 unknown (wire default)."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[NamedTopicPartitions, ...]
    target_assignment: tuple[NamedTopicPartitions, ...]
    member_type: int = -1


class DescribedConsumerGroup(Struct, frozen=True):
    """`members` is a `Lazily` if there are many."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[DescribedConsumerMember] = ()
    authorized_operations: int = -2147483648


class ConsumerGroupDescribeReply(Struct, frozen=True):
    groups: Sequence[DescribedConsumerGroup]
