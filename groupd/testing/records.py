"""Records as tests write and read them.

`produce` accepts for one record: bytes, str (UTF-8), None (a tombstone), a `TestRecord`, or a
mapping with the fields of one. A record without a partition goes where Java's producer would put
it: by the murmur2 hash of its key, or round robin if it has no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import fields, replace

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.suggest import did_you_mean
from groupd.protocol.records.batch import Batch, BatchRecord, iter_records
from groupd.protocol.records.batch_builder import plain_batch

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


class TestRecord(Struct, frozen=True):
    """One record. `partition`, `offset` and `timestamp_ms` are -1 while they are not known. Set the
    partition or the timestamp to choose it; the log chooses the offset."""

    __test__ = False  # pytest must not take it for a test class because of its name

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = -1
    offset: int = -1
    timestamp_ms: int = -1

    def __repr__(self) -> str:
        """Shows only the fields that are set: <TestRecord 0@5 b'k'=b'v'>."""
        place = f"{self.partition}@{self.offset} " if self.offset >= 0 else ""
        key = "" if self.key is None else f"{self.key!r:.60}="
        headers = f" {dict(self.headers)!r:.60}" if self.headers else ""
        return f"<TestRecord {place}{key}{self.value!r:.60}{headers}>"

    def at(self, offset: int) -> TestRecord:
        """The same record, with the offset that the log has given it."""
        return replace(self, offset=offset)


RecordLike: TypeAlias = bytes | str | TestRecord | Mapping[str, Any] | None

_FIELDS = frozenset(entry.name for entry in fields(TestRecord)) - {"offset"}


def as_record(given: RecordLike) -> TestRecord:
    """The value as a record. Raises HarnessError for a value that cannot be a record."""
    if isinstance(given, TestRecord):
        return given
    if not isinstance(given, Mapping):
        return TestRecord(_bytes(given, "value"))
    unknown = given.keys() - _FIELDS
    if unknown or "value" not in given:
        hint = "".join(did_you_mean(name, _FIELDS) for name in sorted(unknown))
        raise HarnessError(
            "a record has value, key, headers, partition and timestamp_ms, "
            f"not {sorted(given)}{hint}"
        )
    headers = given.get("headers", ())
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return TestRecord(
        value=_bytes(given["value"], "value"),
        key=_bytes(given.get("key"), "key"),
        headers=tuple((name, _bytes(value, f"header {name}")) for name, value in pairs),
        partition=given.get("partition", -1),
        timestamp_ms=given.get("timestamp_ms", -1),
    )


def placed(records: Iterable[RecordLike], partitions: int, now_ms: int) -> list[TestRecord]:
    """The records, each with its partition and its time. Raises HarnessError for a partition that
    does not exist."""
    found = []
    turn = 0
    for given in records:
        record = as_record(given)
        partition = record.partition
        if partition < 0 and record.key is not None:
            partition = (murmur2(record.key) & 0x7FFFFFFF) % partitions
        elif partition < 0:
            partition = turn % partitions
            turn += 1
        if partition >= partitions:
            raise HarnessError(f"partition {partition}: the topic has {partitions}")
        timestamp_ms = record.timestamp_ms if record.timestamp_ms >= 0 else now_ms
        found.append(replace(record, partition=partition, timestamp_ms=timestamp_ms))
    return found


def encode(records: Iterable[TestRecord]) -> bytes:
    """One encoded batch, from records of one partition."""
    return plain_batch(
        [
            BatchRecord(offset, record.timestamp_ms, record.key, record.value, record.headers)
            for offset, record in enumerate(records)
        ]
    )


def decode(batch: Batch, partition: int) -> list[TestRecord]:
    """The records of a stored batch."""
    return [
        TestRecord(raw.value, raw.key, raw.headers, partition, raw.offset, raw.timestamp_ms)
        for raw in iter_records(batch)
    ]


def murmur2(data: bytes) -> int:
    """The hash of Java's default partitioner, unsigned."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def _bytes(value: Any, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise HarnessError(f"{name} must be bytes, str or None, not {type(value).__name__}")
