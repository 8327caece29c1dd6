"""The durable state of share-partitions (KIP-932), between brokers: InitializeShareGroupState (83),
ReadShareGroupState (84), WriteShareGroupState (85), DeleteShareGroupState (86) and
ReadShareGroupStateSummary (87).

A share-partition is a partition of a topic as one share group sees it. `state_epoch`: grows when
the share group gives the partition a new start offset. `leader_epoch`: of the partition's leader.
`delivery_complete_count`: how many records from the start offset on will not be delivered any more;
-1 if it is not known (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId

AVAILABLE = 0
ACKNOWLEDGED = 2
ARCHIVING = 3
ARCHIVED = 4
"""Delivery states. 1, acquired, is never stored. ARCHIVING: the record is to be copied to the
dead-letter queue (KIP-1191)."""

NO_OFFSET = -1
"""No start offset yet: the first reader of the share-partition decides where it starts."""


class ShareStateBatch(Struct, frozen=True, gc=False):
    """The state of a range of offsets."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


# Topics of requests: `partitions` are the structs below them.


class ShareStateTopic(Struct, frozen=True):
    """The partitions of one topic, in a request or in a reply."""

    topic_id: TopicId
    partitions: Sequence[
        InitializedShareState
        | AskedShareState
        | WrittenShareState
        | int
        | ShareStateResult
        | ReadShareState
        | ShareStateSummary
    ]


class InitializedShareState(Struct, frozen=True):
    partition: int
    state_epoch: int
    start_offset: int


class AskedShareState(Struct, frozen=True):
    partition: int
    leader_epoch: int


class WrittenShareState(Struct, frozen=True):
    """`start_offset` -1: unchanged. `batches` are merged with what is stored."""

    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: tuple[ShareStateBatch, ...] = ()


class ShareStateResult(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class ReadShareState(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    batches: Sequence[ShareStateBatch] = ()


class ShareStateSummary(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1


# Requests and replies -------------------------------------------------------------------------


class InitializeShareGroupStateRequest(Struct, frozen=True):
    group_id: str
    topics: Sequence[ShareStateTopic]


class ReadShareGroupStateRequest(Struct, frozen=True):
    group_id: str
    topics: Sequence[ShareStateTopic]


class WriteShareGroupStateRequest(Struct, frozen=True):
    group_id: str
    topics: Sequence[ShareStateTopic]


class DeleteShareGroupStateRequest(Struct, frozen=True):
    """The partitions of its topics are numbers."""

    group_id: str
    topics: Sequence[ShareStateTopic]


class ReadShareGroupStateSummaryRequest(Struct, frozen=True):
    group_id: str
    topics: Sequence[ShareStateTopic]


class ShareStateReply(Struct, frozen=True):
    """The reply of each of the five. The partitions are `ReadShareState` or `ShareStateSummary`
    where the request reads, and `ShareStateResult` elsewhere."""

    topics: Sequence[ShareStateTopic] = ()
