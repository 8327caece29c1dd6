"""The likely author of each commit: the member that owned the partition at that point of the log.

A commit record names no member, so the code follows each group along the log and looks up the owner
(`coordinator.history.authors`). Rows come grouped by group and in log order. Only the current state
of one group is in memory, never its history. Groups without membership records cost almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.history.authors import Authors
from groupd.pipeline.schema import OFFSET_COMMIT_TYPES
from groupd.pipeline.transactions import is_offset
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType, decode_record

MEMBERSHIP_TYPES = (2, 3, 5, 8)
"""The record types that tell who the members are and what they own. Target assignments and regular
expressions are left out: a member owns what it has now, not what it is to get."""

_PROBE_MS = -1


class Who(NamedTuple):
    """What is known about an offset row besides the record itself. `actor` to `epoch` are the
    fields of the commit's author (`coordinator.history.changes.Author`). `protocol_type` is that of
    the group, "" if the group has no members. `expiry_never` and `expiry_base` (microseconds) say
    from when on the group's offsets expire; a null `expiry_base` means each offset's own commit
    time."""

    actor: str
    member: str
    instance: str | None
    client_id: str
    client_host: str
    epoch: int
    protocol_type: str
    expiry_never: bool
    expiry_base: int | None


AUTHOR = StructType(
    [
        StructField("actor", StringType()),
        StructField("member", StringType()),
        StructField("instance", StringType()),
        StructField("client_id", StringType()),
        StructField("client_host", StringType()),
        StructField("epoch", IntegerType()),
        StructField("protocol_type", StringType()),
        StructField("expiry_never", BooleanType()),
        StructField("expiry_base", TimestampType()),
    ]
)
_ARROW = pa.struct(
    [
        ("actor", pa.string()),
        ("member", pa.string()),
        ("instance", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("epoch", pa.int32()),
        ("protocol_type", pa.string()),
        ("expiry_never", pa.bool_()),
        ("expiry_base", pa.timestamp("us", "UTC")),
    ]
)

_READ = ("log_partition", "group", "log_offset", "topic", "partition", "_topic_id")
_BYTES = ("key", "value")


def is_membership() -> Column:
    return f.col("record_type_id").isin(*MEMBERSHIP_TYPES)


def with_authors(rows: DataFrame) -> DataFrame:
    """Returns the offset rows of `rows` with a column `author`. `rows` must include the membership
    rows, and the columns `key` and `value`, which are dropped."""
    rows = rows.where(is_offset() | is_membership()).withColumn(
        "_topic_id", f.col("offset_commit.topic_id")
    )
    ordered = rows.repartition("log_partition", "group").sortWithinPartitions(
        "log_partition", "group", "log_offset"
    )
    kept = [field for field in ordered.schema if field.name not in ("_topic_id", *_BYTES)]
    schema = StructType([*kept, StructField("author", AUTHOR)])
    return ordered.mapInArrow(_fold, schema)


def _fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    follower = _Follower()
    for batch in batches:
        yield follower.take(batch)


class _Follower:
    """Follows one group at a time, through rows sorted by log partition, group and offset."""

    def __init__(self) -> None:
        self._state = ShardState(CoordinatorConfig(), new_id=str, assignors={})
        self._shard = GroupCoordinatorShard(self._state)
        self._authors = Authors()
        self._current: tuple[int, str] | None = None
        self._group: Group | None = None
        # Index in `_found` by place, for the group in its present state.
        self._known: dict[tuple[str, int, str | None], int] = {}
        self._found: dict[Who, int] = {}

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the offset rows of `batch` with their authors."""
        self._found.clear()
        self._known.clear()
        types = batch.column("record_type_id").to_pylist()
        kept: list[int] = []
        found: list[int] = []
        columns = (batch.column(name).to_pylist() for name in (*_READ, *_BYTES))
        for row, (type_id, log, group, offset, topic, partition, topic_id, key, value) in enumerate(
            zip(types, *columns, strict=True)
        ):
            if (log, group) != self._current:
                self._begin(log, group)
            if type_id in OFFSET_COMMIT_TYPES:
                kept.append(row)
                found.append(self._author(topic, partition, topic_id))
            else:
                self._apply(key, value, offset)
        rows = batch.take(pa.array(kept, pa.int32())).drop_columns(["_topic_id", *_BYTES])
        known = pa.array([who._asdict() for who in self._found], _ARROW)
        return rows.append_column("author", known.take(pa.array(found, pa.int32())))

    def _begin(self, log: int, group: str) -> None:
        self._state.groups.clear()
        self._current = (log, group)
        self._group = None
        self._known.clear()

    def _apply(self, key: bytes, value: bytes | None, offset: int) -> None:
        """Replays a membership record. A record that contradicts the group is skipped: the log may
        begin after records that this one builds on."""
        try:
            record = decode_record(key, value)
            self._shard.replay(record, AppliedAt(offset, -1, -1))
        except (ReplayError, CorruptRecord, UnknownRecordType, ValueError):
            return
        self._group = self._state.groups.get(record.key.group)
        self._authors.group_changed(self._group, record.key)
        self._known.clear()

    def _author(self, topic: str, partition: int, topic_id: str | None) -> int:
        place = (topic, partition, topic_id)
        index = self._known.get(place)
        if index is None:
            who = self._who(topic, partition, topic_id)
            index = self._known[place] = self._found.setdefault(who, len(self._found))
        return index

    def _who(self, topic: str, partition: int, topic_id: str | None) -> Who:
        group = self._group
        author = self._authors.of(group, topic, _raw_id(topic_id), partition)
        # A group has either one expiry base for all offsets or uses each offset's own commit time.
        owner = None if group is None else group.offset_owner
        base_ms = _PROBE_MS if owner is None else owner.offset_expiration_base()(_PROBE_MS)
        return Who(
            author.actor.value,
            author.member_id,
            author.instance_id,
            author.client_id,
            author.client_host,
            author.epoch,
            "" if group is None else group.protocol_type,
            base_ms is None,
            None if base_ms is None or base_ms == _PROBE_MS else base_ms * 1000,
        )


@lru_cache(maxsize=4096)
def _raw_id(topic_id: str | None) -> bytes:
    return NO_TOPIC_ID if topic_id is None else UUID(topic_id).bytes
