"""The state of each share-partition as of an instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs.offsets import as_of
from groupd.pipeline.logs import SHARE_STATE
from groupd.pipeline.options import parse_time
from groupd.pipeline.share_ranges import ANSWERS, INPUT, PLACE, lives, states, with_topic
from groupd.pipeline.windows import with_lag

_FAR_US = 253402300799_000000
"""The last second of the year 9999."""


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    at_us = None if options["at"] in ("", None) else parse_time(str(options["at"]))
    entries = inputs.entries if at_us is None else as_of(inputs.entries, at_us)
    frame = with_topic(states(lives(entries)), inputs.topics)
    frame = _with_end(frame, inputs.end_offsets, at_us)
    kind = frame.schema["batches"].dataType
    frame = frame.withColumn("batches", f.coalesce("batches", f.array().cast(kind)))
    frame = frame.select(
        *("group", "topic", "partition", "state_epoch", "leader_epoch", "snapshot_epoch"),
        *("start_offset", "start_since", "delivery_complete_count"),
        *(_records(*states).alias(name) for name, states in ANSWERS.items()),
        f.array_max(f.transform("batches", lambda one: one["delivery_count"])).alias(
            "most_deliveries"
        ),
        *("end_offset", "lag"),
        *("batches", "last_time", "topic_id", "log_partition", "log_offset"),
    )
    return {"share-states": Table(frame, None, PLACE)}


def _records(*states: int) -> Column:
    """How many records from the start offset on are in one of these delivery states."""
    return f.aggregate(
        f.filter("batches", lambda one: one["delivery_state"].isin(*states)),
        f.lit(0).cast("long"),
        lambda total, one: total + one["last_offset"] - one["first_offset"] + 1,
    )


def _with_end(rows: DataFrame, end_offsets: DataFrame, at_us: int | None) -> DataFrame:
    """Adds `end_offset` and `lag`, the records that are still to be delivered, as Kafka counts them
    (KIP-1226): null where one of the numbers is not known."""
    # Without an instant the ends are those of now, so all that have a time are before it.
    at = f.timestamp_micros(f.lit(_FAR_US if at_us is None else at_us))
    done = f.col("start_offset") + f.col("delivery_complete_count")
    rows = rows.withColumns(
        {
            "offset": done,
            "window_end": at,
            "is_last": f.lit(at_us is None),
        }
    )
    return with_lag(rows, end_offsets)


JOB = Job(
    "share-states",
    "the state of share-partitions as of an instant: start offset, records in flight, lag",
    build,
    {"at": "", "ends_every": "5m"},
    columns=INPUT,
    ends_every="ends_every",
    log=SHARE_STATE,
)
