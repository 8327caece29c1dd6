"""What became of commits that were part of a transaction (docs/spec/offsets-and-log.md#3.4).

Such a commit is decided by the next marker of its producer in its log partition; the producer's
epoch does not matter. A commit outside of transactions counts where it stands. A source that leaves
out markers and aborted records (Kafka, read_committed) sets `transactional` to null or false: what
it gives was committed, and counts where it stands.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from groupd.pipeline.schema import OFFSET_COMMIT_TYPES

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"

_SLICES = 256
"""Rows outside of transactions need no neighbours, so they are spread over this many keys."""


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
