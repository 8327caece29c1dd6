"""Verifications under way: the time between asking the transaction coordinator and the append.

In between a marker may end the transaction, and then the answer does not count any more (KIP-890).
So each question has an object; any append for the producer removes it, and the append that asked
must show that its object is still there. The object also remembers the lowest sequence that waits
for an answer, so that a later batch does not overtake one that has to be sent again.
"""

from __future__ import annotations

from collections import OrderedDict

from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import BatchHeader


class Verification:
    """The question whether one producer's transaction is open. `bumps_epoch`: transaction version
    2, where every transaction has an epoch of its own, and so its own sequences."""

    __slots__ = ("bumps_epoch", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, bumps_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.bumps_epoch = bumps_epoch


class Verifications:
    """The verifications under way, by producer id. Beyond `limit` the oldest are forgotten; their
    producers try again."""

    __slots__ = ("_by_producer", "_limit")

    def __init__(self, limit: int) -> None:
        self._by_producer: OrderedDict[int, Verification] = OrderedDict()
        self._limit = limit

    def start(self, producer_id: int, epoch: int, sequence: int, bumps_epoch: bool) -> Verification:
        """The verification of a producer; several batches of one producer share it."""
        entry = self._by_producer.get(producer_id)
        if entry is None:
            entry = self._by_producer[producer_id] = Verification(epoch, sequence, bumps_epoch)
            if len(self._by_producer) > self._limit:
                self._by_producer.popitem(last=False)
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, sequence)
        return entry

    def holds(self, producer_id: int, verification: Verification | None) -> bool:
        return verification is not None and self._by_producer.get(producer_id) is verification

    def check_sequence(self, header: BatchHeader, *, has_batches: bool) -> None:
        """Raises ApiError OUT_OF_ORDER_SEQUENCE_NUMBER while an earlier batch is missing."""
        entry = self._by_producer.get(header.producer_id)
        if entry is None:
            return
        lowest = entry.lowest_sequence
        if entry.bumps_epoch and not has_batches:
            lowest = 0
        if header.base_sequence > lowest:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: "
                f"{header.base_sequence} (incoming), {lowest} (earliest seen)",
            )

    def clear(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, epoch: int) -> None:
        """A marker with `epoch` was written. Under version 2 that is the epoch of the next
        transaction, which may be asking already; then its verification stays."""
        entry = self._by_producer.get(producer_id)
        if entry is not None and not (entry.bumps_epoch and entry.epoch == epoch):
            del self._by_producer[producer_id]
