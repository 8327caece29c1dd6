"""Requests and replies of transactions (KIP-98, KIP-664, KIP-890). InitProducerId is in `data`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode


class TxnTopic(Struct, frozen=True):
    """Partitions of one topic, by name."""

    name: str
    partitions: tuple[int, ...]


class AddPartitionsTransaction(Struct, frozen=True):
    """`verify_only`: only check whether the partitions are in the transaction; do not add them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TxnTopic, ...]
    verify_only: bool = False


class AddPartitionsToTxnRequest(Struct, frozen=True):
    """v0-3, which clients send, carry exactly one transaction."""

    transactions: tuple[AddPartitionsTransaction, ...]


class AddedTopic(Struct, frozen=True):
    """`partitions`: (partition, error)."""

    name: str
    partitions: Sequence[tuple[int, ErrorCode]]


class AddedTransaction(Struct, frozen=True):
    transactional_id: str
    topics: Sequence[AddedTopic]


class AddPartitionsToTxnReply(Struct, frozen=True):
    """`error`: of the whole request (v4 and later). If it is set, there are no results."""

    transactions: Sequence[AddedTransaction] = ()
    error: ErrorCode = ErrorCode.NONE


class AddOffsetsToTxnRequest(Struct, frozen=True):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class AddOffsetsToTxnReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE


class EndTxnRequest(Struct, frozen=True):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class EndTxnReply(Struct, frozen=True):
    """In v5 and later: the producer id and epoch for the next transaction."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1


class DescribeTransactionsRequest(Struct, frozen=True):
    transactional_ids: tuple[str, ...]


class DescribedTransaction(Struct, frozen=True):
    """`topics`: while the transaction ends, only the partitions that have no marker yet."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[TxnTopic, ...] = ()

    @property
    def partition_count(self) -> int:
        return sum([len(topic.partitions) for topic in self.topics])


class DescribeTransactionsReply(Struct, frozen=True):
    transactions: Sequence[DescribedTransaction]


class ListTransactionsRequest(Struct, frozen=True):
    """Empty filters match everything. `duration_ms`: only transactions that have run longer than
    this; < 0 = all. `pattern`: a regular expression for the whole transactional id; None or "" =
    all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedTransaction(Struct, frozen=True):
    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsReply(Struct, frozen=True):
    transactions: tuple[ListedTransaction, ...] = ()
    unknown_states: tuple[str, ...] = ()
    error: ErrorCode = ErrorCode.NONE
