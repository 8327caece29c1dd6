"""One measurement, in a process of its own: `python -m tests.bench.pipeline.task MODE LOG WARM_UP`.

Prints one line of JSON: records, seconds. Spark has started and has read a small log before the
clock starts, so that it is the reading that is measured. Runs under `spark-submit` too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyspark.sql import Observation
from pyspark.sql import functions as f

from coordinator.logtools.segments import offsets_partitions, read_segment
from pipeline.inputs import Origin, read_entries
from pipeline.session import spark_session
from protocol.records.batch import iter_batches, iter_records
from protocol.records.codec import decode_record
from storage.open import create_reader

_PAGE_BYTES = 1024 * 1024
MODES = (
    "python-segments",
    "python-store",
    "spark-segments",
    "spark-store",
    "spark-kafka",
)


def decoded(payloads: Iterable[bytes]) -> int:
    """Every record as an object; how many."""
    count = 0
    for payload in payloads:
        for batch in iter_batches(payload):
            records = 0
            for record in iter_records(batch):
                records += 1
                if not batch.header.is_control:
                    decode_record(record.key or b"", record.value)
            count += records
    return count


def of_segments(directory: str) -> Iterator[bytes]:
    for paths in offsets_partitions(Path(directory)).values():
        for path in paths:
            for raw in read_segment(path):
                yield raw.payload


async def of_store(directory: str) -> int:
    reader = create_reader(None, directory)
    await reader.start()
    try:
        count = 0
        for state in await reader.states():
            if not state.name.startswith("__consumer_offsets-"):
                continue
            at = state.start_offset
            while rows := await reader.read(state.name, at, _PAGE_BYTES):
                count += decoded(row.payload for row in rows)
                at = rows[-1].last_offset + 1
        return count
    finally:
        await reader.close()


def in_python(mode: str, log: str) -> int:
    if mode == "python-segments":
        return decoded(of_segments(log))
    return asyncio.run(of_store(log))


def in_spark(mode: str) -> Callable[[str], int]:
    """Starts Spark; gives what reads a log. Further arguments are settings of Spark, `master=...`
    and `memory=...`."""
    settings = dict(one.split("=", 1) for one in sys.argv[4:])
    master = settings.pop("master", None)
    memory = settings.pop("memory", "2g")
    spark = spark_session("bench-pipeline", master=master, driver_memory=memory, settings=settings)

    def read(log: str) -> int:
        origin = {
            "spark-segments": Origin(segments=log),
            "spark-store": Origin(store=log),
            "spark-kafka": Origin(kafka=log),
        }[mode]
        seen = Observation()
        # A sink that drops everything, but wants every column of every row.
        observed = read_entries(spark, origin).observe(seen, f.count(f.lit(1)).alias("records"))
        observed.write.format("noop").mode("overwrite").save()
        return int(seen.get["records"])

    return read


def main() -> None:
    mode, log, warm_up = sys.argv[1:4]
    if mode.startswith("python"):
        started = time.perf_counter()
        count = in_python(mode, log)
    else:
        read = in_spark(mode)
        read(warm_up)
        started = time.perf_counter()
        count = read(log)
    seconds = time.perf_counter() - started
    print(json.dumps({"records": count, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
