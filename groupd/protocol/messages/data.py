"""Records that are written and read: Produce (0), Fetch (1), ListOffsets (2), OffsetForLeaderEpoch
(23), DeleteRecords (21), InitProducerId (22).

Older versions give a topic by name, newer ones by id; the other field is then "" or zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.throttled import Throttled

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class ProducePartition(Struct, frozen=True):
    """`records`: record batches of magic 2, as the client sent them. None or empty is an error of
    that partition."""

    partition: int
    records: bytes | None


class ProduceTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId
    partitions: tuple[ProducePartition, ...]


class ProduceRequest(Struct, frozen=True):
    """`acks`: 0 = no reply, 1 = once the leader has the records, -1 = once all in-sync replicas
    do."""

    topics: tuple[ProduceTopic, ...]
    acks: int = -1
    timeout_ms: int = 30000
    transactional_id: str | None = None


class RecordError(Struct, frozen=True):
    """What is wrong with the record at position `index` of a batch."""

    index: int
    message: str | None


class ProducedPartition(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    current_leader: tuple[int, int] | None = None
    """(node id, leader epoch), only with NOT_LEADER_OR_FOLLOWER. The node id is -1 while there is
    no leader."""


class ProducedTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId
    partitions: Sequence[ProducedPartition]


class ProduceReply(Struct, frozen=True):
    topics: Sequence[ProducedTopic]
    node_endpoints: tuple[Node, ...] = ()


class FetchPartition(Struct, frozen=True):
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class FetchDataTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId
    partitions: tuple[int, ...]


class FetchRequest(Struct, frozen=True):
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


class FetchedPartition(Struct, frozen=True):
    """`aborted`: (producer id, first offset) of each aborted transaction; None = not given."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] | None = None
    records: bytes | memoryview = b""
    diverging_epoch: tuple[int, int] | None = None
    """(leader epoch, end offset) from where the reader's log differs from the leader's."""
    current_leader: tuple[int, int] | None = None
    """(node id, leader epoch), only with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH. The node id
    is -1 while there is no leader."""


class FetchedDataTopic(Struct, frozen=True):
    name: str
    topic_id: TopicId
    partitions: Sequence[FetchedPartition]


class FetchReply(Throttled, frozen=True):
    """`counted`: how many bytes of records a quota has counted already."""

    error: ErrorCode = ErrorCode.NONE
    session_id: int = 0
    topics: Sequence[FetchedDataTopic] = ()
    node_endpoints: tuple[Node, ...] = ()
    counted: int = 0


class ListOffsetsPartition(Struct, frozen=True):
    """`timestamp_ms`: -1 latest, -2 earliest, -3 max timestamp, -4 earliest local, ..."""

    partition: int
    timestamp_ms: int
    current_leader_epoch: int = -1


class ListOffsetsTopic(Struct, frozen=True):
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsRequest(Struct, frozen=True):
    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: int = READ_UNCOMMITTED
    replica_id: int = -1
    timeout_ms: int = 0


class ListedOffset(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListedOffsetsTopic(Struct, frozen=True):
    name: str
    partitions: Sequence[ListedOffset]


class ListOffsetsReply(Struct, frozen=True):
    topics: Sequence[ListedOffsetsTopic]


class LeaderEpochPartition(Struct, frozen=True):
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


class LeaderEpochTopic(Struct, frozen=True):
    name: str
    partitions: tuple[LeaderEpochPartition, ...]


class OffsetForLeaderEpochRequest(Struct, frozen=True):
    topics: tuple[LeaderEpochTopic, ...]
    replica_id: int = -2


class EpochEndOffset(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1


class EpochEndTopic(Struct, frozen=True):
    name: str
    partitions: Sequence[EpochEndOffset]


class OffsetForLeaderEpochReply(Struct, frozen=True):
    topics: Sequence[EpochEndTopic]


class DeleteRecordsTopic(Struct, frozen=True):
    """`partitions`: (partition, offset); offset -1 = up to the high watermark."""

    name: str
    partitions: tuple[tuple[int, int], ...]


class DeleteRecordsRequest(Struct, frozen=True):
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: int = 60000


class DeletedRecords(Struct, frozen=True):
    partition: int
    low_watermark: int = -1
    error: ErrorCode = ErrorCode.NONE


class DeletedRecordsTopic(Struct, frozen=True):
    name: str
    partitions: Sequence[DeletedRecords]


class DeleteRecordsReply(Struct, frozen=True):
    topics: Sequence[DeletedRecordsTopic]


class InitProducerIdRequest(Struct, frozen=True):
    transactional_id: str | None
    transaction_timeout_ms: int = 60000
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1
