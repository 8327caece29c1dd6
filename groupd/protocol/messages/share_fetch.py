"""Records of share groups (KIP-932): ShareFetch (78) and ShareAcknowledge (79)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.throttled import Throttled

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgements."""

BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
"""Values of `ShareFetchRequest.acquire_mode` (KIP-1206)."""

NO_LEADER_GIVEN = (0, 0)
"""What Kafka writes as the current leader if there is no need to tell it."""


class AcknowledgementBatch(Struct, frozen=True):
    """`types`: one byte for the whole range, or one for each offset. A negative type is 128 or more
    here."""

    first_offset: int
    last_offset: int
    types: bytes


class AcknowledgedPartition(Struct, frozen=True):
    """A partition to read, or to acknowledge records of. In a ShareFetch it may be both."""

    partition: int
    batches: tuple[AcknowledgementBatch, ...] = ()


class AcknowledgedTopic(Struct, frozen=True):
    """A topic id may come twice in a request."""

    topic_id: TopicId
    partitions: tuple[AcknowledgedPartition, ...]


class ForgottenShareTopic(Struct, frozen=True):
    topic_id: TopicId
    partitions: tuple[int, ...]


class ShareFetchRequest(Struct, frozen=True):
    """`session_epoch`: 0 opens a session, -1 ends it. `is_renew_ack`: this request renews locks and
    fetches nothing (KIP-1222)."""

    group_id: str | None = None
    member_id: str | None = None
    session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 0x7FFFFFFF
    max_records: int = 0
    batch_size: int = 0
    acquire_mode: int = BATCH_OPTIMIZED
    is_renew_ack: bool = False
    topics: tuple[AcknowledgedTopic, ...] = ()
    forgotten: tuple[ForgottenShareTopic, ...] = ()


class AcquiredRecords(Struct, frozen=True):
    first_offset: int
    last_offset: int
    delivery_count: int


class ShareFetchedPartition(Struct, frozen=True):
    """`records`: whole record batches, which may have more records than were acquired.
    `current_leader`: (node id, leader epoch)."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acknowledge_error: ErrorCode = ErrorCode.NONE
    acknowledge_error_message: str | None = None
    current_leader: tuple[int, int] = NO_LEADER_GIVEN
    records: bytes = b""
    acquired: Sequence[AcquiredRecords] = ()


class ShareFetchedTopic(Struct, frozen=True):
    topic_id: TopicId
    partitions: Sequence[ShareFetchedPartition]


class ShareFetchReply(Throttled, frozen=True):
    """`lock_timeout_ms`: how long a record stays acquired. `counted`: how many bytes of records a
    quota has counted already."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    lock_timeout_ms: int = 0
    topics: Sequence[ShareFetchedTopic] = ()
    node_endpoints: Sequence[Node] = ()
    counted: int = 0


class ShareAcknowledgeRequest(Struct, frozen=True):
    """`session_epoch` -1 ends the session and releases its records."""

    group_id: str | None = None
    member_id: str | None = None
    session_epoch: int = 0
    is_renew_ack: bool = False
    topics: tuple[AcknowledgedTopic, ...] = ()


class ShareAcknowledgeResult(Struct, frozen=True):
    """Of one partition. `current_leader`: (node id, leader epoch)."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    current_leader: tuple[int, int] = NO_LEADER_GIVEN


class ShareAcknowledgeResults(Struct, frozen=True):
    """The partitions of one topic."""

    topic_id: TopicId
    partitions: Sequence[ShareAcknowledgeResult]


class ShareAcknowledgeReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    lock_timeout_ms: int = 0
    topics: Sequence[ShareAcknowledgeResults] = ()
    node_endpoints: Sequence[Node] = ()
