"""The records of `__consumer_offsets` as plain data (spec: offsets and log, section 5.1).

A `Record` is a key and a value; value None is a tombstone. Keys are hashable. Written value
versions are chosen by the codec: OffsetCommit v4 (v1 when `expire_timestamp_ms` is set),
GroupMetadata v3, all others v0. Older versions are read into the same classes.
"""

from __future__ import annotations

from typing import NamedTuple

from groupd.protocol.frozen import dataclass
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.values import value


class OffsetCommitKey(NamedTuple):
    """Type 1; type 0 (legacy) is read into it too. A tuple, as its value and the record are: every
    partition of every commit makes one of each."""

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A tuple, since a log makes millions of them."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """Type 2: a classic group."""

    group: str


@dataclass(frozen=True, slots=True)
class GroupMetadataMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int = -1
    members: tuple[GroupMetadataMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey:
    """Type 3."""

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey:
    """Type 4, legacy: only its tombstone is ever written."""

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue:
    """Read only as "present"; `raw` is the undecoded value after the version."""

    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey:
    """Type 5."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """Present while a member of a consumer group speaks the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataValue:
    """`subscribed_topic_names` are sorted."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetMetadataKey:
    """Type 6."""

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetMetadataValue:
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetMemberKey:
    """Type 7."""

    group: str
    member_id: str


@value
class AssignedTopic:
    """Partitions ascending."""

    topic_id: TopicId
    partitions: tuple[int, ...]


@value
class ConsumerGroupTargetMemberValue:
    """Topics ascending by id."""

    topics: tuple[AssignedTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberKey:
    """Type 8."""

    group: str
    member_id: str


@value
class OwnedTopic:
    """`assignment_epochs` one per partition, or None when the record has none."""

    topic_id: TopicId
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None


@value
class ConsumerGroupCurrentMemberValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[OwnedTopic, ...] = ()
    pending_revocation: tuple[OwnedTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegexKey:
    """Type 16."""

    group: str
    regex: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegexValue:
    """`topics` sorted."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


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
)


class Record(NamedTuple):
    """A change to hard state; `value` None = tombstone."""

    key: RecordKey
    value: RecordValue | None = None
