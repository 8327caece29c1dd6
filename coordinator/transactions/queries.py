"""DescribeTransactions and ListTransactions (KIP-664), read from the table."""

from __future__ import annotations

import re2

from groupd.coordinator.transactions.log_records import by_topic
from groupd.coordinator.transactions.states import BY_NAME, PREPARED, TransactionState
from groupd.coordinator.transactions.table import Entry, TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.transactions import (
    DescribedTransaction,
    ListedTransaction,
    ListTransactionsReply,
    ListTransactionsRequest,
    TxnTopic,
)

_PATTERN_OPTIONS = re2.Options()
_PATTERN_OPTIONS.log_errors = False


def describe(table: TransactionTable, transactional_id: str) -> DescribedTransaction:
    """One transactional id; an error stands in the answer."""
    if not transactional_id:
        return DescribedTransaction(transactional_id, ErrorCode.INVALID_REQUEST)
    entry = table.entries.get(transactional_id)
    if entry is None:
        return DescribedTransaction(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    metadata = entry.metadata
    shown = entry.unmarked if metadata.state in PREPARED else metadata.partitions
    return DescribedTransaction(
        transactional_id,
        state=metadata.state.shown,
        timeout_ms=metadata.timeout_ms,
        start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(TxnTopic(topic, partitions) for topic, partitions in by_topic(shown)),
    )


def list_transactions(
    table: TransactionTable, request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsReply:
    """Those that pass all filters, by id. Raises ApiError INVALID_REGULAR_EXPRESSION."""
    states = frozenset(BY_NAME[name] for name in request.states if name in BY_NAME)
    unknown = tuple(dict.fromkeys(name for name in request.states if name not in BY_NAME))
    pattern = _compile(request.pattern)
    producer_ids = frozenset(request.producer_ids)
    found = []
    for transactional_id, entry in sorted(table.entries.items()):
        if (
            (not producer_ids or entry.metadata.producer_id in producer_ids)
            and (not request.states or entry.metadata.state in states)
            and _runs_longer(entry, request.duration_ms, now_ms)
            and (pattern is None or pattern.fullmatch(transactional_id))
        ):
            metadata = entry.metadata
            found.append(
                ListedTransaction(transactional_id, metadata.producer_id, metadata.state.shown)
            )
    return ListTransactionsReply(tuple(found), unknown)


def _runs_longer(entry: Entry, duration_ms: int, now_ms: int) -> bool:
    return duration_ms < 0 or now_ms - entry.metadata.start_ms > duration_ms


def _compile(pattern: str | None) -> re2._Regexp | None:
    if not pattern:
        return None
    try:
        return re2.compile(pattern, _PATTERN_OPTIONS)
    except re2.error as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}",
        ) from error


def counts(table: TransactionTable) -> dict[TransactionState, int]:
    """How many ids are in each state."""
    found = dict.fromkeys(TransactionState, 0)
    for entry in table.entries.values():
        found[entry.metadata.state] += 1
    return found
