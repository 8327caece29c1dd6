"""The batches of a partition's log, the newest ones from memory and the others from the store; and
where each leader epoch began (KIP-101, KIP-320).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable

from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import iter_batches, parse_header
from groupd.storage.log import PartitionLogs, StoredBatch

NO_EPOCH = -1
EPOCHS_MAX = 1000
"""How many epochs are remembered for a partition, the newest ones. Each move to another node raises
the epoch, but only epochs in which something was written, and that of the present leader, are
remembered."""


class LeaderEpochs:
    """Leader epochs and the offsets at which they began, both ascending."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def began(self, epoch: int, offset: int) -> None:
        """The log has this epoch from `offset` on. An epoch that is not newer than the latest
        changes nothing."""
        if epoch > self.latest:
            self._epochs.append(epoch)
            self._starts.append(offset)
            del self._epochs[:-EPOCHS_MAX], self._starts[:-EPOCHS_MAX]

    def at(self, offset: int) -> int:
        """The epoch of the record at `offset`."""
        return self._epochs[max(0, bisect_right(self._starts, offset) - 1)]

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch that is not above `epoch`; `end_offset` is the
        end of the log. (-1, -1) for an epoch that is still to come."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, -1
        following = bisect_right(self._epochs, epoch)
        end = self._starts[following] if following < len(self._starts) else end_offset
        # As in Kafka an epoch older than the first known one ends where that one begins.
        return (self._epochs[following - 1] if following else epoch), end


def check_leader_epoch(current: int, asked: int) -> None:
    """Raises ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client names another
    leader epoch than `current`. `asked` -1: it names none."""
    if asked in (NO_EPOCH, current):
        return
    older = asked < current
    raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)


# Batches ------------------------------------------------------------------------------------

# A row of the store holds one batch as it was appended. After a cleaning a row covers a range of
# offsets and holds what is left of their batches, which may be nothing.

LOG_BYTES_MAX = 1 << 20
TOTAL_BYTES_MAX = 64 << 20


async def read_batches(
    logs: PartitionLogs, name: str, from_offset: int, end: int, max_bytes: int, *, min_one: bool
) -> list[bytes] | None:
    """Whole batches, one in each payload, that end at or after `from_offset` and below `end`, at
    most `max_bytes`; with `min_one` the first batch even if it is larger. An empty list: nothing is
    left before `end`, or nothing fits. None: the log has no row there. Raises LogError."""
    at = from_offset
    while at < end:
        rows = await logs.read(name, at, max_bytes)
        if not rows:
            return None
        payloads = [
            payload
            for row in rows
            if row.last_offset < end
            for payload in _batches(row, from_offset)
        ]
        if payloads:
            return within(payloads, max_bytes, min_one)
        at = rows[-1].last_offset + 1
    return []


def _batches(row: StoredBatch, from_offset: int) -> Iterable[bytes]:
    payload = row.payload
    if payload and parse_header(payload).size == len(payload):
        return [payload] if parse_header(payload).last_offset >= from_offset else []
    return [
        batch.payload for batch in iter_batches(payload) if batch.header.last_offset >= from_offset
    ]


def within(payloads: list[bytes], max_bytes: int, min_one: bool) -> list[bytes]:
    """The leading payloads that fit into `max_bytes`; with `min_one` the first one in any case."""
    room = max_bytes
    for count, payload in enumerate(payloads):
        room -= len(payload)
        if room < 0 and not (min_one and count == 0):
            return payloads[:count]
    return payloads


class _Tail:
    __slots__ = ("batches", "size")

    def __init__(self) -> None:
        self.batches: deque[StoredBatch] = deque()
        self.size = 0


class TailCache:
    """The newest batches of busy logs, by log name, so that readers at the end need no SQL.

    It has only durable batches, for each log a run without gaps. Its size is limited for each log
    and in total. The log that was written longest ago is dropped first; then readers go to the
    store.
    """

    def __init__(self) -> None:
        self._tails: OrderedDict[str, _Tail] = OrderedDict()
        self.size = 0

    def add(self, name: str, batch: StoredBatch) -> None:
        """Append the newest durable batch of a log."""
        tail = self._tails.get(name)
        if tail is not None and tail.batches[-1].last_offset + 1 != batch.base_offset:
            self.drop(name)
            tail = None
        if tail is None:
            tail = self._tails[name] = _Tail()
        tail.batches.append(batch)
        self._grow(tail, len(batch.payload))
        self._tails.move_to_end(name)
        while tail.size > LOG_BYTES_MAX and len(tail.batches) > 1:
            self._grow(tail, -len(tail.batches.popleft().payload))
        while self.size > TOTAL_BYTES_MAX and len(self._tails) > 1:
            self.drop(next(iter(self._tails)))

    def drop(self, name: str) -> None:
        tail = self._tails.pop(name, None)
        if tail is not None:
            self.size -= tail.size

    def read(
        self, name: str, from_offset: int, max_bytes: int, min_one: bool
    ) -> list[bytes] | None:
        """Payloads beginning with the batch that contains `from_offset`, as `PartitionLogs.read`
        returns them; None if that batch is not in the cache."""
        tail = self._tails.get(name)
        if tail is None or not (
            tail.batches[0].base_offset <= from_offset <= tail.batches[-1].last_offset
        ):
            return None
        wanted: list[bytes] = []
        for batch in reversed(tail.batches):
            if batch.last_offset < from_offset:
                break
            wanted.append(batch.payload)
        wanted.reverse()
        return within(wanted, max_bytes, min_one)

    def _grow(self, tail: _Tail, by: int) -> None:
        tail.size += by
        self.size += by
