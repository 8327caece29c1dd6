"""The states of a shard at work, and what each of them answers."""

from __future__ import annotations

from enum import Enum

from groupd.protocol.errors import ErrorCode


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
