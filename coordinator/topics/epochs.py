"""Leader epochs (KIP-101, KIP-320): this node has led every partition at epoch 0 since ever."""

from __future__ import annotations

from groupd.coordinator.topics.partition import LEADER_EPOCH, ReadableLog
from groupd.protocol.errors import ApiError, ErrorCode

NO_EPOCH = -1
UNDEFINED = (-1, -1)


def check_leader_epoch(current_leader_epoch: int) -> None:
    """Does the client know the leader it talks to? -1 = it does not say. Raises ApiError
    FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH."""
    if current_leader_epoch in (NO_EPOCH, LEADER_EPOCH):
        return
    raise ApiError(
        ErrorCode.FENCED_LEADER_EPOCH
        if current_leader_epoch < LEADER_EPOCH
        else ErrorCode.UNKNOWN_LEADER_EPOCH
    )


def end_of_epoch(log: ReadableLog, leader_epoch: int) -> tuple[int, int]:
    """(leader epoch, end offset) of an epoch; `UNDEFINED` for one that never was."""
    if leader_epoch != LEADER_EPOCH:
        return UNDEFINED
    return LEADER_EPOCH, log.high_watermark
