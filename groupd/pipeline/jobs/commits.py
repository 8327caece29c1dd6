"""The history of every commit: which offset it replaced, how far it moved, and who made it.

Words and rules are those of `groupd groups history` (docs/history.md). A commit counts from its
record on. In a transaction it counts from the COMMIT marker on, and only if no later record has
replaced it by then. A tombstone removes what is committed and what is pending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from groupd.coordinator.history.changes import Actor, ChangeKind
from groupd.coordinator.history.ledger import DEFAULT_RETENTION_MS
from groupd.coordinator.logtools.record_types import MARKER, TYPE_NAMES
from groupd.pipeline.authors import MEMBERSHIP_TYPES, is_membership, with_authors
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.schema import OFFSET_COMMIT_TYPES
from groupd.pipeline.transactions import resolve

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
_TYPES = (MARKER, *(TYPE_NAMES[number] for number in (*OFFSET_COMMIT_TYPES, *MEMBERSHIP_TYPES)))
_MS_PER_MINUTE = 60_000


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    frame = history(inputs.entries, int(options["retention_minutes"]) * _MS_PER_MINUTE)
    return {"commits": Table(frame, "time", ("log_partition", "log_offset"))}


def history(entries: DataFrame, retention_ms: int = DEFAULT_RETENTION_MS) -> DataFrame:
    """One row for each commit record, whatever became of it, and one for each offset that a
    tombstone removed. Columns: docs/pipeline-jobs.md."""
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
    """The kind of change, told apart as in `coordinator.history.ledger`."""
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
    """Whether the offset's time was up. The log has tombstones but no reasons; if so, it has
    expired."""
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
    {"retention_minutes": DEFAULT_RETENTION_MS // _MS_PER_MINUTE},
    columns=INPUT,
)
