"""Leader epochs of a partition (KIP-101, KIP-320): where each of them began."""

from __future__ import annotations

from bisect import bisect_right

from groupd.protocol.errors import ApiError, ErrorCode

NO_EPOCH = -1
EPOCHS_MAX = 1000
"""Epochs that are remembered of a partition, the newest ones. Each move to another node makes one
that only counts once something was written in it, or its leader was asked."""


class LeaderEpochs:
    """Epochs and the offsets of their beginnings, both ascending."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def began(self, epoch: int, offset: int) -> None:
        """From this offset on the log is of this epoch. One that is not newer changes nothing."""
        if epoch > self.latest:
            self._epochs.append(epoch)
            self._starts.append(offset)
            del self._epochs[:-EPOCHS_MAX], self._starts[:-EPOCHS_MAX]

    def at(self, offset: int) -> int:
        """The epoch of the record at an offset."""
        return self._epochs[max(0, bisect_right(self._starts, offset) - 1)]

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """(epoch, offset): the newest epoch up to the one that is asked for, and where it ends;
        `end_offset` is where the log does. (-1, -1) for an epoch that has not come yet."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, -1
        following = bisect_right(self._epochs, epoch)
        end = self._starts[following] if following < len(self._starts) else end_offset
        # As in Kafka an epoch from before the first one that is known ends where that begins.
        return (self._epochs[following - 1] if following else epoch), end


def check_leader_epoch(current: int, asked: int) -> None:
    """Raises ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client names another epoch
    of the leader than this one; -1: it names none."""
    if asked in (NO_EPOCH, current):
        return
    older = asked < current
    raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
