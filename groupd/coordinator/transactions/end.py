"""The end of a transaction: EndTxn under both transaction versions, and the abort that fences a
producer.

In version 1 the epoch stays the same, so a repeated EndTxn finds the state that it asked for. In
version 2 (KIP-890) each end takes a new epoch. So a retry (with the epoch before) differs from the
end of the next transaction (with the current epoch). An abort without a transaction is no error,
because the client does not know whether its first partition was added:

    state, request     retry              current epoch
    Empty              PRODUCER_FENCED    abort: new epoch; commit: INVALID_TXN_STATE
    CompleteAbort      abort: NONE        abort: new epoch; commit: INVALID_TXN_STATE
    CompleteCommit     commit: NONE       abort: new epoch; commit: INVALID_TXN_STATE

The functions are pure: they take metadata and what is pending, and return a `TransactionStep`. They
raise ApiError or NeedsProducerId before any change.
"""

from __future__ import annotations

from groupd.coordinator.transactions.metadata import (
    AT_REST,
    EPOCH_BUMPS,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    NeedsProducerId,
    TransactionAnswer,
    TransactionChange,
    TransactionMetadata,
    TransactionState,
    TransactionStep,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.transactions import EndTxnRequest

_RESULT = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether the state is the result of a commit."""

_DONE = TransactionAnswer()


def end_v1(
    request: EndTxnRequest, metadata: TransactionMetadata, *, pending: bool, now_ms: int
) -> TransactionStep:
    """EndTxn up to v4 (transaction version 1)."""
    if metadata.producer_id != request.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != request.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if pending:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is TransactionState.ONGOING:
        prepared = metadata.prepared(
            commit=request.committed,
            client_version=0,
            next_producer_id=NO_PRODUCER_ID,
            now_ms=now_ms,
        )
        return TransactionChange(request.transactional_id, prepared)
    _require_result(metadata, request.committed)
    if metadata.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return TransactionAnswer()


def end_v2(
    request: EndTxnRequest,
    metadata: TransactionMetadata,
    *,
    pending: bool,
    now_ms: int,
    fresh_id: int | None,
) -> TransactionStep:
    """EndTxn from v5 on (transaction version 2). `fresh_id`: a producer id for the case that epochs
    run out."""
    if pending:
        # Checked first: the producer may already use an id that is still on its way to the log.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    overflowed = (
        metadata.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_EPOCH
        and metadata.producer_epoch == 0
    )
    if metadata.producer_id != request.producer_id and not overflowed:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    retried = overflowed or metadata.producer_epoch == request.producer_epoch + 1
    _check_epoch(request, metadata, bumped=retried and not overflowed, overflowed=overflowed)
    state = metadata.state
    if state is TransactionState.ONGOING or (
        state in AT_REST and not request.committed and not retried
    ):
        return _prepare_v2(request, metadata, now_ms, fresh_id)
    _require_result(metadata, request.committed)
    if state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not retried:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return TransactionAnswer(
        producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
    )


def _check_epoch(
    request: EndTxnRequest, metadata: TransactionMetadata, *, bumped: bool, overflowed: bool
) -> None:
    current = metadata.producer_epoch == request.producer_epoch
    if metadata.state in PREPARED:
        valid = bumped
    elif metadata.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        # No producer gets an epoch beyond the last one: this transaction was ended when its
        # producer was fenced.
        valid = (bumped or overflowed or current) and metadata.producer_epoch <= LAST_EPOCH
    else:
        valid = current
    if not valid:
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def _require_result(metadata: TransactionMetadata, committed: bool) -> None:
    """Raises ApiError INVALID_TXN_STATE unless the transaction has the result that is asked for."""
    if _RESULT.get(metadata.state) is not committed:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)


def _prepare_v2(
    request: EndTxnRequest, metadata: TransactionMetadata, now_ms: int, fresh_id: int | None
) -> TransactionChange:
    prepared = metadata.prepared(
        commit=request.committed,
        client_version=EPOCH_BUMPS,
        next_producer_id=_next_producer_id(metadata, fresh_id),
        now_ms=now_ms,
    )
    after = prepared.completed(now_ms)
    answer = TransactionAnswer(producer_id=after.producer_id, producer_epoch=after.producer_epoch)
    return TransactionChange(request.transactional_id, prepared, answer)


def _next_producer_id(metadata: TransactionMetadata, fresh_id: int | None) -> int:
    if not metadata.epoch_exhausted:
        return NO_PRODUCER_ID
    if fresh_id is None:
        raise NeedsProducerId
    return fresh_id


def fence(
    transactional_id: str,
    metadata: TransactionMetadata,
    *,
    server_version: int,
    now_ms: int,
    fresh_id: int | None,
    answer: TransactionAnswer = _DONE,
) -> TransactionChange:
    """Abort an open transaction and fence its producer, after a timeout or because another producer
    with the same id begins. No producer gets the new epoch, so no retry can have it."""
    assert metadata.state is TransactionState.ONGOING
    if server_version >= EPOCH_BUMPS:
        prepared = metadata.prepared(
            commit=False,
            client_version=server_version,
            next_producer_id=_next_producer_id(metadata, fresh_id),
            now_ms=now_ms,
        )
    else:
        prepared = metadata.fenced().prepared(
            commit=False, client_version=0, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms
        )
    return TransactionChange(transactional_id, prepared, answer)
