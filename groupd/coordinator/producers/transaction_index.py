"""Which transactions are open, which were aborted, and up to where all are decided. The rules are
Kafka's.

The last stable offset is the first offset of the oldest transaction that is open or whose marker
is not durable yet; without such a transaction it is the high watermark. A reader of committed
data gets the batches below it, and a list of the aborted transactions that overlap these batches.
For each of them it skips the producer's batches from the transaction's first offset up to the
ABORT marker.

An aborted transaction needs 32 bytes until its records are deleted or compacted away.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict, deque


class TransactionIndex:
    """The transactions of one log. Its methods must be called in the order of the offsets."""

    __slots__ = ("_ended", "_firsts", "_lasts", "_open", "_producers", "_stable")

    def __init__(self) -> None:
        # In the order of their first offsets, because they begin in that order.
        self._open: OrderedDict[int, int] = OrderedDict()
        self._ended: deque[tuple[int, int]] = deque()
        # The aborted transactions, by the offset of their marker. `_stable`: the last stable offset
        # after each of them; no transaction that ends later begins below it.
        self._producers, self._firsts = array("q"), array("q")
        self._lasts, self._stable = array("q"), array("q")

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._open[first_offset] = producer_id

    def end(
        self, producer_id: int, first_offset: int, marker_offset: int, *, committed: bool
    ) -> None:
        del self._open[first_offset]
        self._ended.append((first_offset, marker_offset))
        if committed:
            return
        self._producers.append(producer_id)
        self._firsts.append(first_offset)
        self._lasts.append(marker_offset)
        self._stable.append(next(iter(self._open), marker_offset + 1))

    def durable(self, high_watermark: int) -> None:
        """Everything below `high_watermark` is in the store, so the transactions with markers there
        are decided."""
        while self._ended and self._ended[0][1] < high_watermark:
            self._ended.popleft()

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset, which is not above `high_watermark`."""
        if not (self._open or self._ended):
            return high_watermark
        unstable = min((first for first, _ in self._ended), default=high_watermark)
        return min(high_watermark, unstable, next(iter(self._open), high_watermark))

    def aborted(self, from_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """Returns the aborted transactions that have a batch or their marker in [from, end), as
        (producer id, first offset), in the order of their markers."""
        found = []
        for at in range(bisect_left(self._lasts, from_offset), len(self._lasts)):
            if self._firsts[at] < end_offset:
                found.append((self._producers[at], self._firsts[at]))
            if self._stable[at] >= end_offset:
                break
        return tuple(found)

    def forget_below(self, offset: int) -> None:
        """Forget transactions that were aborted below `offset`, because none of their records can
        be read any more."""
        gone = bisect_left(self._lasts, offset)
        for column in (self._producers, self._firsts, self._lasts, self._stable):
            del column[:gone]
