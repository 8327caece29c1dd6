"""What became of commits that were part of a transaction (docs/spec/offsets-and-log.md#3.4).

Such a commit waits for the next marker of its producer in its log partition; the producer's epoch
plays no part. A commit outside of transactions counts where it stands. A source that leaves
markers and aborted records out (Kafka, read_committed) gives `transactional` null: what it gives
was committed, and counts where it stands.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from groupd.pipeline.schema import OFFSET_COMMIT_TYPES

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"

_SLICES = 256
"""Rows outside of transactions need no neighbours: they are spread over so many keys."""


def is_offset() -> Column:
    """The row is an offset commit or its tombstone."""
    return f.col("record_type_id").isin(*OFFSET_COMMIT_TYPES)


def resolve(entries: DataFrame) -> DataFrame:
    """`entries` without markers, with `outcome` and with the offset and the timestamp from
    which on the row counts, `effective_offset` and `effective_time`: null if it never did.

    One pass with one sort; every column is passed on, so select before.
    """
    marker = f.col("marker").isNotNull()
    waits = is_offset() & ~f.col("tombstone") & f.coalesce("transactional", f.lit(False))
    slice_ = f.pmod(f.hash("group", "topic", "partition"), f.lit(_SLICES))
    rows = entries.withColumn(
        "_producer", f.when(marker | waits, f.col("producer_id")).otherwise(-2 - slice_)
    )
    # Backwards, so that the next marker is the last one seen: each row is looked at once.
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
