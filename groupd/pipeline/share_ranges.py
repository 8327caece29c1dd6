"""What happened to the records of topics in share groups, from rows of `schema.SHARE_ENTRIES`.

The state of a share-partition is a set of ranges of offsets, each with a delivery state and a
delivery count. Of two ranges that are written for the same offset the one with the higher count
holds, and at the same count the one with the higher state (docs/spec/share-group.md#3). So what
holds is a maximum, and what changed is where the maximum grew. Ranges are cut at each other's ends
before they are compared, so the work follows the number of ranges, not of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.window import WindowSpec

from groupd.coordinator.logtools.entries import STATE_TYPE_NAMES
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
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
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


def answer() -> Column:
    """The name in `ANSWERS` of the column `delivery_state`."""
    state = f.col("delivery_state")
    return f.coalesce(*(f.when(state.isin(*states), name) for name, states in ANSWERS.items()))


def lives(entries: DataFrame) -> DataFrame:
    """Returns the rows with `life`; `begins`: the share-partition begins anew; `baseline`: the
    first that is seen of a state that was there before; `start_offset` as it is after the record,
    null as long as it is not known; `moved`: by how much the record moved it forward; `since`: when
    it was set or last moved before this record."""
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
        "life", f.sum(f.col("begins").cast("int")).over(_so_far(PLACE)).cast("int")
    )
    rows = rows.withColumns(
        {
            "baseline": f.col("begins") & (f.size("batches") > 0),
            "start_offset": f.last("start_offset", ignorenulls=True).over(_so_far(LIFE)),
        }
    )
    step = f.col("start_offset") - f.lag("start_offset").over(_in_order(LIFE))
    rows = rows.withColumn("moved", f.greatest(f.coalesce(step, f.lit(0)), f.lit(0)))
    set_at = f.when(f.col("begins") | (f.col("moved") > 0), f.col("timestamp"))
    return rows.withColumn("since", f.last(set_at, ignorenulls=True).over(_before(LIFE)))


def pieces(rows: DataFrame) -> DataFrame:
    """One row for each range of each record of `lives`, cut so that two ranges of a life are the
    same or have no offset in common. `before`: what was known of these offsets until then, null for
    nothing; `changed`: the record says something new of them."""
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
    ranges = ranges.withColumn("_edges", edges)
    cuts = f.array_sort(
        f.filter(
            "_edges", lambda edge: (edge > f.col("first_offset")) & (edge <= f.col("last_offset"))
        )
    )
    firsts = f.concat(f.array("first_offset"), cuts)
    ends = f.concat(cuts, f.array(f.col("last_offset") + 1))
    piece = f.zip_with(
        firsts,
        ends,
        lambda first, end: f.struct(first.alias("first_offset"), (end - 1).alias("last_offset")),
    )
    cut = ranges.select(
        *(name for name in ranges.columns if name not in ("first_offset", "last_offset", "_edges")),
        f.inline(piece),
    )
    now = f.struct("delivery_count", "delivery_state")
    before = f.max(now).over(_before((*LIFE, "first_offset")))
    cut = cut.withColumn("before", before).drop("_block")
    return cut.withColumn("changed", f.col("before").isNull() | (now > f.col("before")))


def changes(rows: DataFrame) -> DataFrame:
    """The rows of `pieces` of which a record says something new, with `records`, how many offsets
    they are, and `answer`: `accepted`, `released` or `archived`. Null: one that was archiving is
    archived."""
    found = pieces(rows).where(f.col("changed") & ~f.col("baseline"))
    ended = f.coalesce(f.col("before.delivery_state") == ARCHIVING, f.lit(False))
    return found.withColumns({"records": _length(), "answer": f.when(~ended, answer())})


def states(rows: DataFrame) -> DataFrame:
    """The state of each share-partition after its last record: one row for each that has one, with
    `batches`, the sorted ranges from the start offset on, neighbours that are alike as one."""
    of_place = Window.partitionBy(*PLACE)
    last = rows.withColumn("_last", f.max("log_offset").over(of_place)).where(
        "log_offset = _last AND NOT tombstone"
    )
    wanted = last.select(*LIFE, f.col("start_offset").alias("_start"))
    # A snapshot is the whole state, so nothing before the last one is needed.
    snapshot = f.when(f.col("record_type_id") == SNAPSHOT, f.col("log_offset"))
    newest = rows.withColumn("_from", f.coalesce(f.max(snapshot).over(of_place), f.lit(0)))
    found = pieces(newest.where("log_offset >= _from").join(wanted, [*LIFE], "left_semi"))
    found = found.join(wanted, [*LIFE]).where("last_offset >= coalesce(_start, 0)")
    found = found.groupBy(*LIFE, "first_offset", "last_offset", "_start").agg(
        f.max(f.struct("delivery_count", "delivery_state")).alias("_now")
    )
    found = found.select(
        *LIFE, f.greatest("first_offset", "_start").alias("first_offset"), "last_offset", "_now.*"
    )
    joined = (
        _joined(found)
        .groupBy(*LIFE)
        .agg(
            f.array_sort(
                f.collect_list(
                    f.struct("first_offset", "last_offset", "delivery_state", "delivery_count")
                )
            ).alias("batches")
        )
    )
    set_at = f.when(f.col("begins") | (f.col("moved") > 0), f.col("timestamp"))
    facts = (
        rows.join(wanted, [*LIFE])
        .groupBy(*LIFE)
        .agg(
            f.max("snapshot_epoch").alias("snapshot_epoch"),
            f.max("state_epoch").alias("state_epoch"),
            f.max("leader_epoch").alias("leader_epoch"),
            f.max(set_at).alias("start_since"),
            f.max("timestamp").alias("last_time"),
        )
    )
    own = last.select(*LIFE, "start_offset", "delivery_complete_count", "log_offset")
    return own.join(facts, [*LIFE]).join(joined, [*LIFE], "left")


def _joined(found: DataFrame) -> DataFrame:
    """Ranges that follow each other and are alike become one."""
    order = Window.partitionBy(*LIFE).orderBy("first_offset")
    same = (
        (f.col("first_offset") == f.lag("last_offset").over(order) + 1)
        & (f.col("delivery_state") == f.lag("delivery_state").over(order))
        & (f.col("delivery_count") == f.lag("delivery_count").over(order))
    )
    found = found.withColumn("_new", (~f.coalesce(same, f.lit(False))).cast("int"))
    run = f.sum("_new").over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return (
        found.withColumn("_run", run)
        .groupBy(*LIFE, "_run", "delivery_state", "delivery_count")
        .agg(f.min("first_offset").alias("first_offset"), f.max("last_offset").alias("last_offset"))
    )


def with_topic(rows: DataFrame, topics: DataFrame) -> DataFrame:
    """Adds `topic`, null for a topic that nothing names."""
    names = topics.groupBy("topic_id").agg(f.first("topic").alias("topic"))
    return rows.join(f.broadcast(names), "topic_id", "left")


def _length() -> Column:
    return f.col("last_offset") - f.col("first_offset") + 1


def _block_of(offset: str) -> Column:
    return f.floor(f.col(offset) / _BLOCK)


def _in_order(place: Sequence[str]) -> WindowSpec:
    return Window.partitionBy(*place).orderBy("log_offset")


def _so_far(place: Sequence[str]) -> WindowSpec:
    return _in_order(place).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _before(place: Sequence[str]) -> WindowSpec:
    return _in_order(place).rowsBetween(Window.unboundedPreceding, -1)
