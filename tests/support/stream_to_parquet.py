"""A process that copies the log of a store into Parquet as a stream, until it is killed.

    python -m tests.support.stream_to_parquet STORE OUT CHECKPOINT [once]

Prints a line for every micro-batch. With `once`: ends when it has what was there at its start.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pipeline.source import GroupdDataSource
from tests.support.spark import running_spark


def main(store: str, out: str, checkpoint: str, *once: str) -> None:
    with running_spark(Path(checkpoint).parent / "spark") as spark:
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
            writer.trigger(availableNow=True)
            if once
            else writer.trigger(processingTime="0 seconds")
        )
        query = writer.start(out)
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
