"""The history of every commit: which offset it replaced, how far it moved, what became of its
transaction, and its likely author.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField, StructType

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.history.authors import Authors
from groupd.coordinator.history.changes import Actor, ChangeKind
from groupd.coordinator.logtools.entries import MARKER, TYPE_NAMES
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.schema import BOOL, INT, OFFSET_COMMIT_TYPES, STRING, TIME, struct
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType, decode_record

# Transactions -------------------------------------------------------------------------------

# A commit in a transaction is decided by the next marker of its producer in the same log partition;
# the producer's epoch does not matter. A commit outside of transactions counts from its own record
# on. So does every commit from a source that leaves out markers and aborted records (Kafka,
# read_committed): there `transactional` is null or false.

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"

_SLICES = 256
"""Rows outside of transactions are independent, so they are spread over this many keys."""


def is_offset() -> Column:
    """Whether the row is an offset commit or its tombstone."""
    return f.col("record_type_id").isin(*OFFSET_COMMIT_TYPES)


def resolve(entries: DataFrame) -> DataFrame:
    """Returns `entries` without markers, with `outcome`, `effective_offset` and `effective_time`:
    the offset and the timestamp from which on the row counts, null if it never did.

    This takes one pass with one sort and carries every column along, so select columns before.
    """
    marker = f.col("marker").isNotNull()
    waits = is_offset() & ~f.col("tombstone") & f.coalesce("transactional", f.lit(False))
    slice_ = f.pmod(f.hash("group", "topic", "partition"), f.lit(_SLICES))
    rows = entries.withColumn(
        "_producer", f.when(marker | waits, f.col("producer_id")).otherwise(-2 - slice_)
    )
    # Sorted backwards, so the next marker is the last one seen and each row is looked at once.
    following = (
        Window.partitionBy("log_partition", "_producer")
        .orderBy(f.col("log_offset").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    end = f.when(marker, f.struct("log_offset", "timestamp", "marker"))
    rows = rows.withColumn("_end", f.last(end, ignorenulls=True).over(following))
    rows = rows.where(~marker).withColumn(
        "outcome",
        f.when(~waits, COMMITTED)
        .when(f.col("_end").isNull(), OPEN)
        .when(f.col("_end.marker") == "commit", COMMITTED)
        .otherwise(ABORTED),
    )
    counts = f.col("outcome") == COMMITTED
    return rows.withColumns(
        {
            f"effective_{name}": f.when(
                counts, f.when(waits, f.col(f"_end.{source}")).otherwise(f.col(source))
            )
            for name, source in (("offset", "log_offset"), ("time", "timestamp"))
        }
    ).drop("_producer", "_end")


# Authors ------------------------------------------------------------------------------------

# A commit record names no member, so the functions below follow each group along the log and look
# up the owner of the partition (`coordinator.history.authors`). Rows come grouped by group and in
# log order. Only the current state of one group is in memory, never its history. Groups without
# membership records cost almost nothing.

MEMBERSHIP_TYPES = (2, 3, 5, 8)
"""The record types that tell which members there are and what they own. Target assignments and
regular expressions are left out: a member owns what it has now, not what it will get."""

_PROBE_MS = -1


class CommitAuthor(NamedTuple):
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


AUTHOR = struct(
    actor=STRING,
    member=STRING,
    instance=STRING,
    client_id=STRING,
    client_host=STRING,
    epoch=INT,
    protocol_type=STRING,
    expiry_never=BOOL,
    expiry_base=TIME,
)
"""The fields of a `CommitAuthor`."""

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
        self._author_type = to_arrow_type(AUTHOR, timezone="UTC")
        self._current: tuple[int, str] | None = None
        self._group: Group | None = None
        # The index in `_found` by partition, valid for the present state of the group.
        self._known: dict[tuple[str, int, str | None], int] = {}
        self._found: dict[CommitAuthor, int] = {}

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
        known = pa.array([who._asdict() for who in self._found], self._author_type)
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

    def _who(self, topic: str, partition: int, topic_id: str | None) -> CommitAuthor:
        group = self._group
        author = self._authors.of(group, topic, _raw_id(topic_id), partition)
        # A group has either one expiry base for all offsets or uses each offset's own commit time.
        owner = None if group is None else group.offset_owner
        base_ms = _PROBE_MS if owner is None else owner.offset_expiration_base()(_PROBE_MS)
        return CommitAuthor(
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


# History ------------------------------------------------------------------------------------

# The words and rules are the same as in `groupd groups history` (docs/history.md). A commit counts
# from its record on. In a transaction it counts from the COMMIT marker on, and only if no later
# record has replaced it by then. A tombstone removes what is committed and what is pending.

PLACE = ("log_partition", "group", "topic", "partition")
"""The columns that identify a committed offset."""

_COLUMNS = (
    "log_partition",
    "log_offset",
    "timestamp",
    "record_type_id",
    "group",
    "topic",
    "partition",
    "tombstone",
    "transactional",
    "producer_id",
    "producer_epoch",
    "marker",
    "offset_commit",
)
INPUT = (*_COLUMNS, "record_type", "key", "value")
"""The columns of the log that are read."""

RETENTION = {"retention_minutes": CoordinatorConfig().offsets_retention_minutes}
"""The option with the retention of offsets, by which expired offsets differ from deleted ones."""

_TYPES = (MARKER, *(TYPE_NAMES[number] for number in (*OFFSET_COMMIT_TYPES, *MEMBERSHIP_TYPES)))


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    frame = history(inputs.entries, options)
    return {"commits": Table(frame, "time", ("log_partition", "log_offset"))}


def history(entries: DataFrame, options: Mapping[str, Any]) -> DataFrame:
    """One row for each commit record, whether it took effect or not, and one for each offset that a
    tombstone removed. `options` include `RETENTION`. Columns: docs/pipeline-jobs.md."""
    retention_ms = int(options["retention_minutes"]) * 60_000
    # Filtered by type name, so that the source leaves records of other types undecoded.
    entries = entries.where(f.col("record_type").isin(*_TYPES))
    # Key and value bytes are kept only for membership records, which need them.
    raw = [f.when(is_membership(), f.col(name)).alias(name) for name in ("key", "value")]
    rows = with_authors(resolve(entries.select(*_COLUMNS, *raw)))
    rows = _in_order(rows).where(~f.col("tombstone") | f.col("before.log_offset").isNotNull())
    kind = _kind(retention_ms)
    rows = rows.withColumn("kind", f.when(f.col("effective"), kind))
    return rows.select(
        "log_partition",
        "log_offset",
        f.col("timestamp").alias("time"),
        "group",
        "topic",
        "partition",
        "kind",
        f.col("before.offset").alias("previous_offset"),
        f.col("offset_commit.offset"),
        (f.col("offset_commit.offset") - f.col("before.offset")).alias("jump"),
        "outcome",
        "effective",
        "effective_offset",
        "effective_time",
        *_author(),
        "producer_id",
        "producer_epoch",
        *(
            f.col(f"offset_commit.{name}")
            for name in ("leader_epoch", "metadata", "commit_time", "expire_time", "topic_id")
        ),
        f.col("before.log_offset").alias("previous_log_offset"),
    )


def _in_order(rows: DataFrame) -> DataFrame:
    """Adds `effective` (the row changed what is committed) and `before` (what was committed until
    then).

    Rows are taken in the order in which they take effect. A row changes something only if no record
    of the same partition that took effect earlier stands later in the log. Of the records of one
    transaction the last one counts, so it is sorted first among those with the same marker.
    """
    earlier = (
        Window.partitionBy(*PLACE)
        .orderBy(f.col("effective_offset").asc_nulls_last(), f.col("log_offset").desc())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    newest = f.coalesce(f.max("log_offset").over(earlier), f.lit(-1))
    rows = rows.withColumn(
        "effective", f.col("effective_offset").isNotNull() & (f.col("log_offset") > newest)
    )
    state = f.struct(
        "log_offset",
        "tombstone",
        *(f.col(f"offset_commit.{name}") for name in ("offset", "commit_time", "expire_time")),
    )
    before = f.last(f.when(f.col("effective"), state), ignorenulls=True).over(earlier)
    rows = rows.withColumn("_before", before)
    there = f.col("effective") & ~f.col("_before.tombstone")
    return rows.withColumn("before", f.when(there, f.col("_before"))).drop("_before")


def _kind(retention_ms: int) -> Column:
    """The kind of change, by the same rules as in `coordinator.history.ledger`."""
    before, after = f.col("before.offset"), f.col("offset_commit.offset")
    by_nobody = f.col("author.actor") == Actor.ADMIN.value
    knows_members = f.col("author.protocol_type") != ""
    return (
        f.when(f.col("tombstone") & _is_over(retention_ms), ChangeKind.EXPIRED.value)
        .when(f.col("tombstone"), ChangeKind.DELETED.value)
        .when(before.isNull(), ChangeKind.FIRST.value)
        .when(after == before, ChangeKind.SAME.value)
        .when(by_nobody & knows_members, ChangeKind.RESET.value)
        .when(after > before, ChangeKind.FORWARD.value)
        .otherwise(ChangeKind.BACK.value)
    )


def _is_over(retention_ms: int) -> Column:
    """Whether the offset was due to expire when its tombstone was written. The log does not tell
    why a tombstone was written; if the offset was due, it counts as expired."""
    own = f.col("before.expire_time")
    since = f.coalesce("author.expiry_base", "before.commit_time", f.timestamp_millis(f.lit(0)))
    age_ms = f.unix_millis("timestamp") - f.unix_millis(since)
    by_age = ~f.col("author.expiry_never") & (age_ms >= retention_ms)
    return f.when(own.isNotNull(), f.col("timestamp") >= own).otherwise(by_age)


def _author() -> list[Column]:
    """The columns of the author, null if unknown. A tombstone has no known author: an expired
    offset counts as removed by the coordinator, any other as removed by an administrator."""
    expired = f.col("kind") == ChangeKind.EXPIRED.value
    removed = f.when(expired, Actor.COORDINATOR.value).otherwise(Actor.ADMIN.value)
    actor = f.when(f.col("tombstone"), removed).otherwise(f.col("author.actor"))
    written = ~f.col("tombstone")
    columns = [actor.alias("actor")]
    for name in ("member", "instance", "client_id", "client_host"):
        value = f.col(f"author.{name}")
        columns.append(f.when(written & (value != ""), value).alias(name))
    epoch = f.col("author.epoch")
    return [*columns, f.when(written & (epoch >= 0), epoch).alias("epoch")]


JOB = Job(
    "commits",
    "every commit with its predecessor, its jump, its author and what became of it",
    build,
    RETENTION,
    columns=INPUT,
)
