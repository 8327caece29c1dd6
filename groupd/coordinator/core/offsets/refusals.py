"""Replies that refuse a whole request of the offset APIs: where each of them has its error
(docs/spec/offsets-and-log.md#2.2).

The handlers use them for group errors, `runtime` for shards that are loading, that are on another
node, or that have failed.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
    failed_commit,
)


def refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitReply:
    return OffsetCommitReply(mapped(lambda topic: failed_commit(topic, code), request.topics))


def refuse_txn_commit(
    request: TxnOffsetCommitRequest, code: ErrorCode, api_version: int
) -> TxnOffsetCommitReply:
    """The refusal of a TxnOffsetCommit. Producers before v2 do not know
    COORDINATOR_LOAD_IN_PROGRESS: they get 15."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < 2:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitReply(mapped(lambda topic: failed_commit(topic, code), request.topics))


def refuse_delete(code: ErrorCode) -> OffsetDeleteReply:
    return OffsetDeleteReply(code)
