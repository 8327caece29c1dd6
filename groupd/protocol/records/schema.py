"""The records of `__consumer_offsets` as plain data (docs/spec/offsets-and-log.md#5.1).

A `Record` is a key and a value; value None is a tombstone. Keys are hashable. The codec chooses the
versions of written values: OffsetCommit v4 (v1 if `expire_timestamp_ms` is set), GroupMetadata v3,
all others v0. Older versions are read into the same classes.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from groupd.protocol.messages import NO_TOPIC_ID, TopicId


class OffsetCommitKey(NamedTuple):
    """Type 1; type 0 (legacy) is also read into it. Keys, values and records of commits are tuples,
    because every commit makes one of each for every partition."""

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A tuple, because a log has millions of them."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: TopicId = NO_TOPIC_ID


class GroupMetadataKey(Struct, frozen=True):
    """Type 2: a classic group."""

    group: str


class GroupMetadataMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(Struct, frozen=True):
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int = -1
    members: tuple[GroupMetadataMember, ...] = ()


class ConsumerGroupMetadataKey(Struct, frozen=True):
    """Type 3."""

    group: str


class ConsumerGroupMetadataValue(Struct, frozen=True):
    epoch: int
    metadata_hash: int = 0


class ConsumerGroupPartitionMetadataKey(Struct, frozen=True):
    """Type 4, legacy: only its tombstone is ever written."""

    group: str


class ConsumerGroupPartitionMetadataValue(Struct, frozen=True):
    """Only its presence matters. `raw`: the undecoded value after the version."""

    raw: bytes = b""


class ConsumerGroupMemberMetadataKey(Struct, frozen=True):
    """Type 5."""

    group: str
    member_id: str


class ClassicProtocol(Struct, frozen=True):
    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct, frozen=True):
    """Present as long as the member of a consumer group uses the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(Struct, frozen=True):
    """`subscribed_topic_names` is sorted."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


class ConsumerGroupTargetMetadataKey(Struct, frozen=True):
    """Type 6."""

    group: str


class ConsumerGroupTargetMetadataValue(Struct, frozen=True):
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


class ConsumerGroupTargetMemberKey(Struct, frozen=True):
    """Type 7."""

    group: str
    member_id: str


class AssignedTopic(Struct, frozen=True):
    """`partitions` are in ascending order."""

    topic_id: TopicId
    partitions: tuple[int, ...]


class ConsumerGroupTargetMemberValue(Struct, frozen=True):
    """Topics are in ascending order of their ids."""

    topics: tuple[AssignedTopic, ...] = ()


class ConsumerGroupCurrentMemberKey(Struct, frozen=True):
    """Type 8."""

    group: str
    member_id: str


class OwnedTopic(Struct, frozen=True):
    """`assignment_epochs`: one for each partition, or None if the record has none."""

    topic_id: TopicId
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None


class ConsumerGroupCurrentMemberValue(Struct, frozen=True):
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[OwnedTopic, ...] = ()
    pending_revocation: tuple[OwnedTopic, ...] = ()


class ConsumerGroupRegexKey(Struct, frozen=True):
    """Type 16."""

    group: str
    regex: str


class ConsumerGroupRegexValue(Struct, frozen=True):
    """`topics` is sorted."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class ShareGroupMemberMetadataKey(Struct, frozen=True):
    """Type 10: a member of a share group (docs/spec/share-group.md#2.1)."""

    group: str
    member_id: str


class ShareGroupMemberMetadataValue(Struct, frozen=True):
    """`subscribed_topic_names` is sorted."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]


class ShareGroupMetadataKey(Struct, frozen=True):
    """Type 11: a share group."""

    group: str


class ShareGroupMetadataValue(Struct, frozen=True):
    epoch: int
    metadata_hash: int = 0


class ShareGroupTargetMetadataKey(Struct, frozen=True):
    """Type 12."""

    group: str


class ShareGroupTargetMetadataValue(Struct, frozen=True):
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


class ShareGroupTargetMemberKey(Struct, frozen=True):
    """Type 13."""

    group: str
    member_id: str


class ShareGroupTargetMemberValue(Struct, frozen=True):
    """Topics are in ascending order of their ids."""

    topics: tuple[AssignedTopic, ...] = ()


class ShareGroupCurrentMemberKey(Struct, frozen=True):
    """Type 14."""

    group: str
    member_id: str


class ShareGroupCurrentMemberValue(Struct, frozen=True):
    """`state` is always 0, stable."""

    member_epoch: int
    previous_member_epoch: int
    state: int = 0
    assigned: tuple[AssignedTopic, ...] = ()


class ShareGroupStatePartitionsKey(Struct, frozen=True):
    """Type 15: which share-partitions of a group are initialized."""

    group: str


class ShareStatePartitions(Struct, frozen=True):
    """Partitions of one topic, in ascending order."""

    topic_id: TopicId
    topic_name: str
    partitions: tuple[int, ...]


class ShareGroupStatePartitionsValue(Struct, frozen=True):
    """All lists are complete. `deleting`: (topic id, topic name)."""

    initializing: tuple[ShareStatePartitions, ...] = ()
    initialized: tuple[ShareStatePartitions, ...] = ()
    deleting: tuple[tuple[TopicId, str], ...] = ()


RecordKey = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetMetadataKey
    | ConsumerGroupTargetMemberKey
    | ConsumerGroupCurrentMemberKey
    | ConsumerGroupRegexKey
    | ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetMetadataKey
    | ShareGroupTargetMemberKey
    | ShareGroupCurrentMemberKey
    | ShareGroupStatePartitionsKey
)
RecordValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetMetadataValue
    | ConsumerGroupTargetMemberValue
    | ConsumerGroupCurrentMemberValue
    | ConsumerGroupRegexValue
    | ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetMetadataValue
    | ShareGroupTargetMemberValue
    | ShareGroupCurrentMemberValue
    | ShareGroupStatePartitionsValue
)


class Record(NamedTuple):
    """A change to hard state. `value` None = tombstone."""

    key: RecordKey
    value: RecordValue | None = None
