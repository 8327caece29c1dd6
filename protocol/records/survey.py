"""First half of the cleaner: what the new part of a log says about the rest (spec: section 8).

A survey goes over the batches from the clean offset on and knows the newest record per key, the
transactions and their outcome, and each producer's last batch. Aborted records count for nothing.
Nothing here does I/O; long work comes as generators that yield now and then, so that the caller
can let others have a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from msgspec import Struct

from groupd.protocol.records.batch import Batch, BatchHeader, decode_marker, iter_records
from groupd.protocol.records.scan import raw_records, records_data

TURN_RECORDS = 250
"""Records between two turns for others: below a millisecond."""

KEY_BYTES = 150
"""Memory that a key takes beside its own bytes."""

Identity = Callable[[bytes], bytes]
"""What the record of a key is about: equal for records that replace each other."""

_LEGACY = b"\x00\x00"
_CURRENT = b"\x00\x01"


def plain_identity(key: bytes) -> bytes:
    """Topics: the key itself."""
    return key


def offsets_identity(key: bytes) -> bytes:
    """`__consumer_offsets`: keys of type 0 mean the same offset as those of type 1."""
    return _CURRENT + key[2:] if key[:2] == _LEGACY else key


class LastBatch(Struct, frozen=True):
    """What a producer wrote last: its epoch, and the last offset of its last data batch of that
    epoch; None if there are only markers of it."""

    epoch: int
    data_offset: int | None


class Transaction(Struct, frozen=True):
    """The batches of a producer from `first` on up to its marker; None: it is still open."""

    producer_id: int
    first: int
    marker: int | None
    committed: bool


class Survey:
    """Newest offsets and transactions of the batches that were added, in the order of the log."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.keys: dict[bytes, int] = {}
        self.size = 0
        """Memory of the keys, roughly, in bytes."""
        self.producers: dict[int, LastBatch] = {}
        self._open: dict[int, tuple[int, dict[bytes, int]]] = {}
        self._ended: list[Transaction] = []
        self._aborted: dict[int, list[Transaction]] = {}

    def add(self, batch: Batch) -> Generator[None, None, None]:
        """Generator, see the module. Raises CorruptBatch."""
        header = batch.header
        if header.producer_id >= 0:
            self._producer(header)
        if header.is_control:
            self._marker(batch)
            return
        found = self.keys
        if header.is_transactional:
            empty: dict[bytes, int] = {}
            opened = self._open.setdefault(header.producer_id, (header.base_offset, empty))
            found = opened[1]
        base_offset = header.base_offset
        for count, record in enumerate(raw_records(header, records_data(batch)), 1):
            if record.key is not None:
                key = self.identity(record.key)
                if key not in found:
                    self.size += len(key) + KEY_BYTES
                found[key] = base_offset + record.offset_delta
            if count % TURN_RECORDS == 0:
                yield

    def _producer(self, header: BatchHeader) -> None:
        if not header.is_control:
            self.producers[header.producer_id] = LastBatch(
                header.producer_epoch, header.last_offset
            )
            return
        before = self.producers.get(header.producer_id)
        if before is None or header.producer_epoch > before.epoch:
            self.producers[header.producer_id] = LastBatch(header.producer_epoch, None)

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether a log without this batch would have forgotten the producer's last sequence or,
        where that has begun anew, its epoch."""
        if header.producer_id < 0:
            return False
        last = self.producers.get(header.producer_id)
        if last is None:
            return True
        if last.data_offset is None:
            return header.producer_epoch == last.epoch
        return not header.is_control and header.last_offset == last.data_offset

    def _marker(self, batch: Batch) -> None:
        for record in iter_records(batch):
            marker = decode_marker(record)
            opened = self._open.pop(batch.header.producer_id, None)
            if marker is None or opened is None:
                continue
            first, keys = opened
            ended = Transaction(
                batch.header.producer_id, first, batch.header.base_offset, marker.committed
            )
            self._ended.append(ended)
            if not marker.committed:
                self._aborted.setdefault(ended.producer_id, []).append(ended)
                continue
            for key, offset in keys.items():
                if offset > self.keys.get(key, -1):
                    self.keys[key] = offset

    def stable_end(self, end: int) -> int:
        """The largest offset up to `end` that lies in no transaction: whatever began before it
        has its marker before it too."""
        spans = [(t.first, t.marker) for t in self._ended]
        spans += [(first, None) for first, _ in self._open.values()]
        moved = True
        while moved:
            moved = False
            for first, marker in spans:
                if first < end and (marker is None or end <= marker):
                    end, moved = first, True
        return end

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the data batch belongs to a transaction that was aborted."""
        return any(
            ended.first <= header.base_offset and (ended.marker or 0) > header.base_offset
            for ended in self._aborted.get(header.producer_id, ())
        )
