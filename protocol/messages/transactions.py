"""Requests and replies of transactions (KIP-98, KIP-664, KIP-890). InitProducerId is in `data`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass


@dataclass(frozen=True, slots=True)
class TxnTopic:
    """Partitions of one topic, by name."""

    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddPartitionsTransaction:
    """`verify_only`: ask whether the partitions are in the transaction, add nothing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TxnTopic, ...]
    verify_only: bool = False


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnRequest:
    """Exactly one transaction in v0-3, which come from clients."""

    transactions: tuple[AddPartitionsTransaction, ...]


@dataclass(frozen=True, slots=True)
class AddedTopic:
    """`partitions`: (partition, error)."""

    name: str
    partitions: tuple[tuple[int, ErrorCode], ...]


@dataclass(frozen=True, slots=True)
class AddedTransaction:
    transactional_id: str
    topics: tuple[AddedTopic, ...]


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnReply:
    """`error` is of the whole request, v4 and later; then there are no results."""

    transactions: tuple[AddedTransaction, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnReply:
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@dataclass(frozen=True, slots=True)
class EndTxnReply:
    """Id and epoch for the next transaction, v5 and later."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """`topics`: while a transaction ends, only partitions without their marker yet."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[TxnTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransactionsReply:
    transactions: tuple[DescribedTransaction, ...]


@dataclass(frozen=True, slots=True)
class ListTransactionsRequest:
    """Empty filters let everything pass. `duration_ms`: only those that run for longer, < 0 all;
    `pattern`: a regular expression over the whole transactional id, None or "" for all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ListTransactionsReply:
    transactions: tuple[ListedTransaction, ...] = ()
    unknown_states: tuple[str, ...] = ()
    error: ErrorCode = ErrorCode.NONE
