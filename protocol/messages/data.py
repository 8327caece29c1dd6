"""Records in and out: Produce (0), Fetch (1), ListOffsets (2), OffsetForLeaderEpoch (23),
DeleteRecords (21), InitProducerId (22).

A topic is given by name up to a version and by id from then on; the other one is "" or zero.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import Node

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class ProducePartition:
    """`records`: record batches v2, as sent; None or empty is an error of that partition."""

    partition: int
    records: bytes | None


@dataclass(frozen=True, slots=True)
class ProduceTopic:
    name: str
    topic_id: TopicId
    partitions: tuple[ProducePartition, ...]


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """`acks`: 0 none (no reply at all), 1, -1."""

    topics: tuple[ProduceTopic, ...]
    acks: int = -1
    timeout_ms: int = 30000
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class RecordError:
    """What is wrong with the record at `index` of a batch."""

    index: int
    message: str | None


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    partition: int
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    current_leader: tuple[int, int] | None = None
    """(node id, leader epoch), only with NOT_LEADER_OR_FOLLOWER."""


@dataclass(frozen=True, slots=True)
class ProducedTopic:
    name: str
    topic_id: TopicId
    partitions: tuple[ProducedPartition, ...]


@dataclass(frozen=True, slots=True)
class ProduceReply:
    topics: tuple[ProducedTopic, ...]
    node_endpoints: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchPartition:
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchDataTopic:
    name: str
    topic_id: TopicId
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True)
class ForgottenTopic:
    name: str
    topic_id: TopicId
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    topics: tuple[FetchDataTopic, ...]
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = READ_UNCOMMITTED
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""
    replica_id: int = -1
    """-1 = a consumer, -2 = a debugging consumer, else the node id of a replica."""


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """`aborted`: (producer id, first offset) of aborted transactions; None = not given."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] | None = None
    records: bytes | memoryview = b""
    diverging_epoch: tuple[int, int] | None = None
    """(leader epoch, end offset) where the reader's log diverges."""
    current_leader: tuple[int, int] | None = None
    """(node id, leader epoch), only with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH."""


@dataclass(frozen=True, slots=True)
class FetchedDataTopic:
    name: str
    topic_id: TopicId
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchReply:
    error: ErrorCode = ErrorCode.NONE
    session_id: int = 0
    topics: tuple[FetchedDataTopic, ...] = ()
    node_endpoints: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """`timestamp_ms`: -1 latest, -2 earliest, -3 max timestamp, -4 earliest local, ..."""

    partition: int
    timestamp_ms: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest:
    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: int = READ_UNCOMMITTED
    replica_id: int = -1
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class ListedOffset:
    partition: int
    error: ErrorCode = ErrorCode.NONE
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListedOffsetsTopic:
    name: str
    partitions: tuple[ListedOffset, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsReply:
    topics: tuple[ListedOffsetsTopic, ...]


@dataclass(frozen=True, slots=True)
class LeaderEpochPartition:
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class LeaderEpochTopic:
    name: str
    partitions: tuple[LeaderEpochPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest:
    topics: tuple[LeaderEpochTopic, ...]
    replica_id: int = -2


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    partition: int
    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class EpochEndTopic:
    name: str
    partitions: tuple[EpochEndOffset, ...]


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochReply:
    topics: tuple[EpochEndTopic, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsTopic:
    """`partitions`: (partition, offset); offset -1 = up to the high watermark."""

    name: str
    partitions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: int = 60000


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    partition: int
    low_watermark: int = -1
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class DeletedRecordsTopic:
    name: str
    partitions: tuple[DeletedRecords, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsReply:
    topics: tuple[DeletedRecordsTopic, ...]


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout_ms: int = 60000
    producer_id: int = -1
    producer_epoch: int = -1
    enable_2pc: bool = False
    keep_prepared_txn: bool = False


@dataclass(frozen=True, slots=True)
class InitProducerIdReply:
    error: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
