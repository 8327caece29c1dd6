"""The committed offsets as of an instant: the rows that the coordinator would have answered with.

An OffsetFetch for all partitions of a group, by topic name, gives exactly these rows. There is one
row for each group, topic and partition. Offsets that were deleted or have expired, and those of
deleted groups, are left out; of transactions only those committed by then count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs.commits import OPEN, PLACE, is_offset, resolve
from groupd.pipeline.options import parse_time

_GROUP_TYPES = (2, 3, 17)
"""The record types whose tombstone removes a group: classic, consumer, streams."""

_INPUT = (
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
    "marker",
    "offset_commit",
)


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    at = options["at"]
    entries = inputs.entries if at in ("", None) else as_of(inputs.entries, parse_time(str(at)))
    frame = latest(entries, inputs.topics)
    return {"offsets": Table(frame, None, ("group", "topic", "partition"))}


def as_of(entries: DataFrame, at_us: int) -> DataFrame:
    """The log up to the last record written at or before `at_us`. So records with a timestamp too
    far ahead, from a wrong clock, do not hide the ones before."""
    cuts = (
        entries.where(f.col("timestamp") <= f.timestamp_micros(f.lit(at_us)))
        .groupBy("log_partition")
        .agg(f.max("log_offset").alias("_cut"))
    )
    return (
        entries.join(f.broadcast(cuts), "log_partition")
        .where(f.col("log_offset") <= f.col("_cut"))
        .drop("_cut")
    )


def latest(entries: DataFrame, topics: DataFrame) -> DataFrame:
    """The rows of the table. Columns: docs/pipeline-jobs.md."""
    rows = resolve(entries.select(*_INPUT)).where(f.col("group").isNotNull())
    states = rows.groupBy(*PLACE).agg(*_state())
    whole_group = Window.partitionBy("log_partition", "group")
    known = f.max("_last_value").over(whole_group) > f.coalesce(
        f.max("_last_deletion").over(whole_group), f.lit(-1)
    )
    states = states.withColumn("_group_exists", known).where(
        f.col("_group_exists") & f.col("topic").isNotNull() & ~f.col("_state.tombstone")
    )
    found = states.select(
        "group",
        "topic",
        "partition",
        *(
            f.col(f"_state.offset_commit.{name}")
            for name in (
                "offset",
                "leader_epoch",
                "metadata",
                "commit_time",
                "expire_time",
                "topic_id",
            )
        ),
        (f.coalesce("_last_open", f.lit(-1)) > f.col("_last_tombstone")).alias("pending"),
        "log_partition",
        f.col("_state.log_offset").alias("log_offset"),
    )
    return _with_topics(found, topics)


def _state() -> list[Column]:
    """The last record of each partition among those that count. The last one is the one with the
    highest log offset, as in Kafka. When its transaction was committed does not matter."""
    offset, counts = f.col("log_offset"), f.col("effective_offset").isNotNull()
    ends_group = f.col("tombstone") & f.col("record_type_id").isin(*_GROUP_TYPES)
    state = f.struct("log_offset", "tombstone", "offset_commit")
    return [
        f.max_by(f.when(is_offset() & counts, state), f.when(is_offset() & counts, offset)).alias(
            "_state"
        ),
        f.max(f.when(f.col("outcome") == OPEN, offset)).alias("_last_open"),
        f.coalesce(f.max(f.when(f.col("tombstone"), offset)), f.lit(-1)).alias("_last_tombstone"),
        f.max(f.when(~f.col("tombstone"), offset)).alias("_last_value"),
        f.max(f.when(ends_group, offset)).alias("_last_deletion"),
    ]


def _with_topics(found: DataFrame, topics: DataFrame) -> DataFrame:
    """Adds `topic_is_current`. It is false if the topic was deleted and created again since, so
    that a client that asks by topic id gets no offset, and null if that is not known. Topics
    without a number of partitions are known from commits only, and may not exist any more."""
    there = f.col("topic_id").isNotNull() & f.col("partitions").isNotNull()
    ids = topics.where(there).groupBy("topic").agg(f.collect_set("topic_id").alias("_ids"))
    current = f.when(f.col("topic_id").isNotNull(), f.array_contains("_ids", f.col("topic_id")))
    return found.join(f.broadcast(ids), "topic", "left").select(
        *found.columns, current.alias("topic_is_current")
    )


JOB = Job(
    "offsets",
    "the committed offsets as of an instant, as OffsetFetch answers them",
    build,
    {"at": ""},
    columns=_INPUT,
)
