"""Compaction of a log: decides which records and batches stay (docs/spec/offsets-and-log.md#8).

A `Survey` reads the batches from the clean offset on. It notes the newest record of each key, the
transactions with their outcome, and the last batch of each producer. Records of aborted
transactions do not count. Then a `Compaction` takes the batches from the start of the log in order
and returns what is left of each:

- The newest record of every key stays, with its offset and timestamp. Batches keep their base and
  last offset. Records of aborted transactions are removed.
- A tombstone stays until its delete horizon has passed. The first cleaning of its batch sets that
  time (attribute bit 6, in the base timestamp). A marker stays until its delete horizon, too, but
  that is set by the first cleaning that finds no batch of its transaction left.
- An emptied batch leaves its header if it is the last batch of the log, or the last data batch of a
  producer that may come back. The last marker of a producer leaves its header if there is no data
  of the producer's epoch.
- A batch that loses no record is not changed. Any other is compressed with its old codec.

This module does no I/O and unpacks nothing: the caller passes the records of each batch. Long work
is done by generators that yield now and then, so that the caller can run other work. The memory
needed is the unpacked bytes of a batch, and one byte for each of its records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from hashlib import sha256
from mmap import mmap

from msgspec import Struct

from groupd.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    Batch,
    BatchHeader,
    RawRecord,
    decode_marker,
    iter_records,
    read_records,
)
from groupd.protocol.records.batch_builder import pack_batch
from groupd.protocol.records.compression import Compressor, Plain
from groupd.protocol.records.varints import read_zigzag, zigzag

TURN_RECORDS = 250
"""How many records are handled between two yields. It takes less than a millisecond."""

_PIECE_BYTES = 16 * 1024
"""How many bytes are compressed between two yields. gzip needs a millisecond for them."""

KEY_BYTES = 150
"""The memory that a key takes in addition to its own bytes."""

_LONG_KEY_BYTES = 4096
"""For longer keys the cleaner remembers a digest. Kafka's cleaner does so for all keys."""
_DIGEST_PIECE_BYTES = 256 * 1024
"""How many bytes of a key are digested between two yields."""

KeyIdentity = Callable[[bytes], bytes]
"""Maps a key to its identity: records whose identities are equal replace each other. Of a long key
it gets only the beginning; the rest is part of the identity as it is."""
About = bytes | int
"""The identity of a key. For a long key it is the digest as a number, so that it cannot be equal to
the identity of a short key."""

_LEGACY = b"\x00\x00"
_CURRENT = b"\x00\x01"


def plain_identity(key: bytes) -> bytes:
    """The `KeyIdentity` of ordinary topics: the key itself."""
    return key


def offsets_identity(key: bytes) -> bytes:
    """The `KeyIdentity` of `__consumer_offsets`: types 0 and 1 are about the same offset."""
    return _CURRENT + key[2:] if key[:2] == _LEGACY else key


class LastBatch(Struct, frozen=True):
    """A producer's last epoch, and the last offset of its last data batch in that epoch. The offset
    is None if that epoch has only markers."""

    epoch: int
    data_offset: int | None


class Transaction(Struct, frozen=True):
    """The batches of a producer from offset `first` up to its marker. `marker` None: still open."""

    producer_id: int
    first: int
    marker: int | None
    committed: bool


class Survey:
    """The newest offset of each key, and the transactions, in the batches that were added. Batches
    must be added in the order of the log."""

    def __init__(self, identity: KeyIdentity) -> None:
        self.identity = identity
        self.keys: dict[About, int] = {}
        self.size = 0
        """The estimated memory of the keys, in bytes."""
        self.producers: dict[int, LastBatch] = {}
        self._open: dict[int, tuple[int, dict[About, int]]] = {}
        self._ended: list[Transaction] = []
        self._aborted: dict[int, list[Transaction]] = {}

    def add(self, batch: Batch, records: Plain) -> Generator[None, None, None]:
        """Adds a batch with its uncompressed records. A generator that yields now and then, see the
        module. Raises CorruptBatch."""
        header = batch.header
        if header.producer_id >= 0:
            self._producer(header)
        if header.is_control:
            self._marker(batch)
            return
        found = self.keys
        if header.is_transactional:
            empty: dict[About, int] = {}
            opened = self._open.setdefault(header.producer_id, (header.base_offset, empty))
            found = opened[1]
        base_offset, data = header.base_offset, records.data
        for count, (delta, _, key_at, key_size, *_) in enumerate(read_records(header, records), 1):
            if key_size >= 0:
                about: About
                if key_size <= _LONG_KEY_BYTES:
                    about = self.identity(data[key_at : key_at + key_size])
                else:
                    about = yield from _digest(self.identity, data, key_at, key_size)
                if about not in found:
                    self.size += min(key_size, _LONG_KEY_BYTES) + KEY_BYTES
                found[about] = base_offset + delta
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
        """Whether the log needs this batch to remember the producer: its last sequence or, if its
        newest epoch has only markers, that epoch."""
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
        """The largest offset up to `end` that is in no transaction: every transaction that began
        before it also has its marker before it."""
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
        """Whether the data batch belongs to an aborted transaction."""
        return any(
            ended.first <= header.base_offset and (ended.marker or 0) > header.base_offset
            for ended in self._aborted.get(header.producer_id, ())
        )


def _digest(
    identity: KeyIdentity, data: bytes | mmap, start: int, size: int
) -> Generator[None, None, int]:
    digest = sha256(identity(data[start : start + _LONG_KEY_BYTES]))
    end = start + size
    for at in range(start + _LONG_KEY_BYTES, end, _DIGEST_PIECE_BYTES):
        digest.update(data[at : min(at + _DIGEST_PIECE_BYTES, end)])
        yield
    return int.from_bytes(digest.digest(), "big")


NOWHERE = 2**63 - 1


class Rules(Struct, frozen=True):
    """`last_offset`: the last offset of the log, whose last batch is never removed completely.
    `producer_expiration_ms`: a producer without a batch for this time need not be remembered.
    `aborted_from`: from this offset on, aborted batches leave their headers, and their markers
    stay. Their records can still be read elsewhere, and readers must learn that they are
    aborted."""

    now_ms: int
    delete_retention_ms: int
    last_offset: int
    producer_expiration_ms: int
    aborted_from: int = NOWHERE


class Compaction:
    """One cleaning: takes the batches of a log from its start in order and returns what is left of
    each.

    `survey` covers everything from the clean offset up to where this cleaning ends.
    """

    def __init__(self, survey: Survey, rules: Rules) -> None:
        self._keys = survey.keys
        self._survey = survey
        self._rules = rules
        # The ids of producers whose transaction still has batches. An id stays here until the
        # marker.
        self._with_batches: set[int] = set()
        self.records_read = 0
        self.records_kept = 0

    def clean(self, batch: Batch, records: Plain) -> Generator[None, None, bytes | None]:
        """Returns what is left of the batch, or None if nothing is left. `records`: its
        uncompressed records. A generator that yields now and then, see the module. Raises
        CorruptBatch."""
        self.records_read += batch.header.record_count
        clean = self._marker if batch.header.is_control else self._data
        return (yield from clean(batch, records))

    def _data(self, batch: Batch, records: Plain) -> Generator[None, None, bytes | None]:
        header = batch.header
        transactional = header.is_transactional
        if transactional and self._survey.is_aborted(header):
            return self._aborted(header)
        if transactional and header.record_count == 0:
            return self._aborted(header)  # an earlier cleaning has emptied it
        over, data = self._horizon_passed(header), records.data
        newest, base_offset = self._keys.get, header.base_offset
        identity = self._survey.identity
        kept = bytearray()  # a 1 for each record that stays, a 0 for the others
        tombstones = False
        for count, record in enumerate(read_records(header, records), 1):
            delta, _, key_at, key_size, value_size, _, _, _ = record
            stays = False
            if key_size >= 0:
                about: About
                if key_size <= _LONG_KEY_BYTES:
                    about = identity(data[key_at : key_at + key_size])
                else:
                    about = yield from _digest(identity, data, key_at, key_size)
                if newest(about, -1) <= base_offset + delta:
                    stays = value_size >= 0 or not over
                    tombstones |= stays and value_size < 0
            kept.append(stays)
            if count % TURN_RECORDS == 0:
                yield
        left = kept.count(1)
        if not left:
            return self._emptied(header)
        self.records_kept += left
        if transactional:
            self._with_batches.add(header.producer_id)
        horizon = tombstones and not header.attributes & DELETE_HORIZON
        if left == header.record_count and not horizon:
            return batch.payload
        base_ms = self._horizon_ms() if horizon else header.base_timestamp_ms
        return (yield from _rewritten(header, records, kept, base_ms, horizon))

    def _marker(self, batch: Batch, records: Plain) -> Generator[None, None, bytes | None]:
        header = batch.header
        markers = [decode_marker(record) for record in iter_records(batch)]
        if not markers:
            return self._emptied(header)
        alive = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        if alive or None in markers:
            self.records_kept += header.record_count
            return batch.payload
        if self._horizon_passed(header):
            return self._emptied(header)
        self.records_kept += header.record_count
        if header.attributes & DELETE_HORIZON:
            return batch.payload
        every = bytearray(b"\x01" * header.record_count)
        return (yield from _rewritten(header, records, every, self._horizon_ms(), True))

    def _aborted(self, header: BatchHeader) -> bytes | None:
        if header.base_offset < self._rules.aborted_from:
            return self._emptied(header)
        self._with_batches.add(header.producer_id)
        return _bare(header)

    def _horizon_ms(self) -> int:
        return self._rules.now_ms + self._rules.delete_retention_ms

    def _horizon_passed(self, header: BatchHeader) -> bool:
        set_before = bool(header.attributes & DELETE_HORIZON)
        return set_before and header.base_timestamp_ms <= self._rules.now_ms

    def _emptied(self, header: BatchHeader) -> bytes | None:
        rules = self._rules
        is_last = header.last_offset >= rules.last_offset
        remembered = (
            header.max_timestamp_ms > rules.now_ms - rules.producer_expiration_ms
            and self._survey.is_last_of_producer(header)
        )
        if not is_last and not remembered:
            return None
        if header.is_transactional and not header.is_control:
            # Readers take this header for the beginning of a transaction, so its marker must stay,
            # too.
            self._with_batches.add(header.producer_id)
        return _bare(header)


def _bare(header: BatchHeader) -> bytes:
    empty = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        base_timestamp_ms=header.max_timestamp_ms,
        record_count=0,
    )
    return pack_batch(empty, b"")


def _rewritten(
    header: BatchHeader, records: Plain, kept: bytearray, base_ms: int, horizon: bool
) -> Generator[None, None, bytes]:
    """Returns the batch with only those records that have a 1 in `kept`. `base_ms`: the new base
    timestamp; the deltas are adapted, so the records keep their timestamps."""
    shift_ms = header.base_timestamp_ms - base_ms
    data, latest = records.data, -(2**63)
    compressor, piece = Compressor(header.codec), bytearray()
    for index, record in enumerate(read_records(header, records)):
        if index % TURN_RECORDS == 0:
            yield
        if not kept[index]:
            continue
        _, time_delta, _, _, _, start, _, end = record
        latest = max(latest, time_delta)
        if shift_ms:
            beginning, start = _moved(data, record, shift_ms)
            piece += beginning
        for at in range(start, end, _PIECE_BYTES):
            piece += data[at : min(at + _PIECE_BYTES, end)]
            if len(piece) >= _PIECE_BYTES:
                compressor.add(bytes(piece))
                piece.clear()
                yield
    compressor.add(bytes(piece))
    attributes = header.attributes
    max_ms = header.max_timestamp_ms
    if not attributes & LOG_APPEND_TIME:
        max_ms = header.base_timestamp_ms + latest
    changed = header._replace(
        attributes=attributes | (DELETE_HORIZON if horizon else 0),
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max_ms,
        record_count=kept.count(1),
    )
    return pack_batch(changed, compressor.finish())


def _moved(data: bytes | mmap, record: RawRecord, shift_ms: int) -> tuple[bytes, int]:
    """Returns the new beginning of a record whose timestamp delta grows by `shift_ms`, and the
    position in `data` from which on the record does not change (where its key begins)."""
    delta, time_delta, *_, start, _, end = record
    _, at = read_zigzag(data, start)
    _, at = read_zigzag(data, at + 1, bits=64)
    _, at = read_zigzag(data, at)
    fields = b"\x00" + zigzag(time_delta + shift_ms) + zigzag(delta)
    return zigzag(len(fields) + end - at) + fields, at
