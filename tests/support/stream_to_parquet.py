"""A process that copies the log of a store into Parquet as a stream, until it is killed.

    python -m tests.support.stream_to_parquet STORE OUT CHECKPOINT

Prints a line for every micro-batch.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from groupd.pipeline.source import GroupdDataSource
from tests.support.spark import running_spark


def copying(
    spark: SparkSession, store: str, out: str, checkpoint: str, *, once: bool
) -> StreamingQuery:
    """The query that copies. `once`: it ends when it has what was there at its start."""
    spark.dataSource.register(GroupdDataSource)
    stream = (
        spark.readStream.format("groupd")
        .option("store", store)
        .option("columns", "log_partition,log_offset,group,offset_commit")
        .option("maxRowsPerBatch", "2000")
        .load()
    )
    writer = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    )
    return writer.start(out)


def main(store: str, out: str, checkpoint: str) -> None:
    with running_spark(Path(checkpoint).parent / "spark") as spark:
        query = copying(spark, store, out, checkpoint, once=False)
        seen = None
        while query.isActive:
            last = query.lastProgress
            if last is not None and last["batchId"] != seen:
                seen = last["batchId"]
                print(f"batch {seen}", flush=True)
            time.sleep(0.05)
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
