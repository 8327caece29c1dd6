"""What share groups did with their records in each window of time, and which records they got again
and again.

The state of a share-partition is a set of ranges of offsets, each with a delivery state and a
delivery count. Of two ranges that are written for the same offset the one with the higher count
holds, and at the same count the one with the higher state (docs/spec/share-group.md#3). So what
holds is a maximum, and what changed is where the maximum grew. Ranges are cut at each other's ends
before they are compared, so the work follows the number of ranges, not of offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.window import WindowSpec

from groupd.coordinator.logtools.entries import STATE_TYPE_NAMES
from groupd.pipeline.errors import at_least_one, length
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.logs import SHARE_STATE
from groupd.pipeline.values import LAST_MS
from groupd.pipeline.windows import with_lag
from groupd.protocol.messages.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE
from groupd.protocol.records.share_state_records import SNAPSHOT

PLACE = ("log_partition", "group", "topic_id", "partition")
"""The columns that identify a share-partition."""

LIFE = (*PLACE, "life")
"""A share-partition from one beginning to the next. It begins anew when the group gives it another
start offset (a new state epoch), and when its state is deleted."""

INPUT = (
    "log_partition",
    "log_offset",
    "timestamp",
    "record_type",
    "record_type_id",
    "group",
    "topic_id",
    "partition",
    "tombstone",
    "state_epoch",
    "start_offset",
    "batches",
    "delivery_complete_count",
)
"""The columns of the log that are read."""

_BLOCK = 256
"""Ranges are also cut at multiples of this offset, and compared only within such a block."""

ANSWERS = {
    "accepted": (ACKNOWLEDGED,),
    "released": (AVAILABLE,),
    "archived": (ARCHIVING, ARCHIVED),
}
"""What a delivery ended with, and the delivery states that say so."""

_WINDOW = ("window_start", "window_end")


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    window = f"{length(options['window']).total_seconds()} seconds"
    top, at_least = (at_least_one(options, name) for name in ("top", "deliveries"))
    # Cached, because both tables are made from them.
    rows = _lives(inputs.entries).persist(StorageLevel.MEMORY_AND_DISK)
    changed = _changes(rows).persist(StorageLevel.MEMORY_AND_DISK)
    windows = _with_topic(_windows(rows, changed, window), inputs.topics)
    windows = _with_lag(windows, inputs.end_offsets)
    records = _with_topic(_redelivered(changed, at_least, top), inputs.topics)
    return {
        "redeliveries": Table(
            windows.select(
                *_WINDOW,
                *("group", "topic", "partition", *ANSWERS, "redelivered", "most_deliveries"),
                *("deliveries", "start_offset", "start_moved", "moved_at", "begun", "still_ms"),
                *("end_offset", "lag", "topic_id", "log_partition"),
            ),
            "window_start",
            ("window_start", *PLACE),
        ),
        "redelivered": Table(
            records.select(
                *("group", "topic", "partition", "first_offset", "last_offset", "deliveries"),
                *("outcome", "releases", "first_time", "last_time", "rank", "topic_id"),
                *("log_partition", "log_offset"),
            ),
            "last_time",
            (*PLACE, "first_offset", "log_offset"),
        ),
    }


def _windows(rows: DataFrame, changed: DataFrame, window: str) -> DataFrame:
    """One row for each share-partition and each window in which its state was written."""
    at = f.window("timestamp", window)
    done = f.col("start_offset") + f.col("delivery_complete_count")
    still = f.unix_millis("timestamp") - f.unix_millis("since")
    starts = rows.groupBy(*PLACE, at.alias("_window")).agg(
        f.max_by("start_offset", "log_offset").alias("start_offset"),
        f.max_by(done, "log_offset").alias("offset"),
        f.sum("moved").alias("start_moved"),
        f.max("moved_at").alias("moved_at"),
        f.sum(f.col("begins").cast("int")).alias("begun"),
        f.max(still).alias("still_ms"),
    )
    by_count = (
        changed.where(f.col("answer").isNotNull())
        .groupBy(*PLACE, at.alias("_window"), "delivery_count")
        .agg(*(_sum_of(name).alias(name) for name in ANSWERS))
    )
    again = f.when(f.col("delivery_count") > 1, sum((f.col(name) for name in ANSWERS), f.lit(0)))
    answers = by_count.groupBy(*PLACE, "_window").agg(
        *(f.sum(name).alias(name) for name in ANSWERS),
        f.coalesce(f.sum(again), f.lit(0)).alias("redelivered"),
        f.max("delivery_count").alias("most_deliveries"),
        f.array_sort(f.collect_list(f.struct("delivery_count", *ANSWERS))).alias("deliveries"),
    )
    found = starts.join(answers, [*PLACE, "_window"], "left")
    return found.fillna(0, [*ANSWERS, "redelivered"])


def _with_lag(windows: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Adds `end_offset` and `lag`, as Kafka counts it (KIP-1226), and the columns of the window."""
    ends = f.col("_window.end")
    is_last = ends == f.max(ends).over(Window.partitionBy(*PLACE))
    # Nothing follows on the last window, so what was produced since then is behind, too.
    windows = windows.withColumns(
        {
            "is_last": is_last,
            "window_end": f.when(is_last, f.timestamp_millis(f.lit(LAST_MS))).otherwise(ends),
        }
    )
    return with_lag(windows, end_offsets).withColumns(
        {"window_start": f.col("_window.start"), "window_end": ends}
    )


def _sum_of(name: str) -> Column:
    return f.coalesce(f.sum(f.when(f.col("answer") == name, f.col("records"))), f.lit(0))


def _redelivered(changed: DataFrame, at_least: int, top: int) -> DataFrame:
    """The ranges that were delivered most often, at most `top` of each share-partition."""
    now = f.struct("delivery_count", "delivery_state", "log_offset")
    found = (
        changed.groupBy(*LIFE, "first_offset", "last_offset")
        .agg(
            f.max(now).alias("_now"),
            f.count(f.when(f.col("answer") == "released", 1)).alias("releases"),
            f.min("timestamp").alias("first_time"),
            f.max("timestamp").alias("last_time"),
        )
        .select("*", "_now.*")
        .where(f.col("delivery_count") >= at_least)
    )
    order = Window.partitionBy(*PLACE).orderBy(f.col("delivery_count").desc(), "first_offset")
    found = found.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= top)
    return found.withColumnRenamed("delivery_count", "deliveries").withColumn("outcome", _answer())


def _answer() -> Column:
    """The name in `ANSWERS` of the column `delivery_state`."""
    state = f.col("delivery_state")
    return f.coalesce(*(f.when(state.isin(*states), name) for name, states in ANSWERS.items()))


def _lives(entries: DataFrame) -> DataFrame:
    """Returns the rows with `life`; `begins`: the share-partition begins anew; `baseline`: the
    first that is seen of a state that was there before; `start_offset` as it is after the record,
    null as long as it is not known; `moved`: by how much the record moved it forward; `moved_at`:
    the record's time if it set or moved it; `since`: the same of the record before that did."""
    rows = entries.select(*INPUT).where(f.col("record_type").isin(*STATE_TYPE_NAMES.values()))
    before = _before(PLACE)
    snapshot = (f.col("record_type_id") == SNAPSHOT) & ~f.col("tombstone")
    known_epoch = f.last("state_epoch", ignorenulls=True).over(before)
    deleted = f.coalesce(f.lag("tombstone").over(_in_order(PLACE)), f.lit(False))
    # Before Kafka 4.5 a start offset that an operator sets back may keep the state epoch.
    known_start = f.last("start_offset", ignorenulls=True).over(before)
    back = f.coalesce("start_offset", f.lit(-1)) < known_start
    other = deleted | known_epoch.isNull() | (f.col("state_epoch") != known_epoch) | back
    rows = rows.withColumn("begins", f.coalesce(snapshot & other, f.lit(False)))
    rows = rows.withColumn(
        "life", f.sum(f.col("begins").cast("int")).over(_in_order(PLACE)).cast("int")
    )
    rows = rows.withColumns(
        {
            "baseline": f.col("begins") & (f.size("batches") > 0),
            "start_offset": f.last("start_offset", ignorenulls=True).over(_in_order(LIFE)),
        }
    )
    step = f.col("start_offset") - f.lag("start_offset").over(_in_order(LIFE))
    rows = rows.withColumn("moved", f.greatest(f.coalesce(step, f.lit(0)), f.lit(0)))
    moved_at = f.when(f.col("begins") | (f.col("moved") > 0), f.col("timestamp"))
    rows = rows.withColumn("moved_at", moved_at)
    return rows.withColumn("since", f.last("moved_at", ignorenulls=True).over(_before(LIFE)))


def _changes(rows: DataFrame) -> DataFrame:
    """One row for each range of a record of `_lives` that says something new of its offsets, cut so
    that two ranges of a life are the same or have no offset in common. `records`: how many offsets
    they are; `answer`: `accepted`, `released` or `archived`, null where one that was archiving is
    archived."""
    ranges = rows.select(
        *LIFE, "log_offset", "timestamp", "baseline", "start_offset", f.inline("batches")
    )
    # What is below the start offset does not count any more.
    start = f.greatest("first_offset", "start_offset")
    ranges = ranges.withColumn("first_offset", start).where("first_offset <= last_offset")
    block = f.explode(f.sequence(_block_of("first_offset"), _block_of("last_offset")))
    ranges = ranges.withColumn("_block", block)
    bottom = f.col("_block") * _BLOCK
    ranges = ranges.withColumns(
        {
            "first_offset": f.greatest("first_offset", bottom),
            "last_offset": f.least("last_offset", bottom + (_BLOCK - 1)),
        }
    )
    together = Window.partitionBy(*LIFE, "_block")
    edges = f.array_union(
        f.collect_set("first_offset").over(together),
        f.collect_set(f.col("last_offset") + 1).over(together),
    )
    cut = ranges.withColumn("_edges", edges)
    inside = f.filter(
        "_edges", lambda edge: edge.between(f.col("first_offset"), f.col("last_offset"))
    )
    cut = cut.withColumn("first_offset", f.explode(inside))
    following = f.filter("_edges", lambda edge: edge > f.col("first_offset"))
    cut = cut.withColumn("last_offset", f.array_min(following) - 1)
    now = f.struct("delivery_count", "delivery_state")
    before = f.max(now).over(_before((*LIFE, "first_offset")))
    found = cut.withColumn("_before", before).drop("_block", "_edges")
    new = f.col("_before").isNull() | (now > f.col("_before"))
    ended = f.coalesce(f.col("_before.delivery_state") == ARCHIVING, f.lit(False))
    records = f.col("last_offset") - f.col("first_offset") + 1
    return found.where(new & ~f.col("baseline")).withColumns(
        {"records": records, "answer": f.when(~ended, _answer())}
    )


def _with_topic(rows: DataFrame, topics: DataFrame) -> DataFrame:
    """Adds `topic`, null for a topic that nothing names."""
    names = topics.groupBy("topic_id").agg(f.first("topic").alias("topic"))
    return rows.join(f.broadcast(names), "topic_id", "left")


def _block_of(offset: str) -> Column:
    return f.floor(f.col(offset) / _BLOCK)


def _in_order(place: Sequence[str]) -> WindowSpec:
    return Window.partitionBy(*place).orderBy("log_offset")


def _before(place: Sequence[str]) -> WindowSpec:
    return _in_order(place).rowsBetween(Window.unboundedPreceding, -1)


JOB = Job(
    "redeliveries",
    "what share groups accepted, released and gave up, and the records they got again and again",
    build,
    {"window": "5m", "deliveries": 2, "top": 100},
    columns=INPUT,
    ends_every="window",
    log=SHARE_STATE,
)
