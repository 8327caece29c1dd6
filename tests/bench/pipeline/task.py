"""One measurement, in a process of its own:
`python -m tests.bench.pipeline.task MODE LOG WARM_UP ROOT [SETTING=VALUE ...]`.

Prints one line of JSON: records, seconds, CPU seconds by role of all processes below the process
ROOT. A small log has been read before the clocks start, so that it is the reading that is measured
and not the start of Spark. Runs under `spark-submit` too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import Observation
from pyspark.sql import functions as f

from groupd.coordinator.logtools.logs import OFFSETS_LOG
from groupd.coordinator.logtools.segments import partition_files, read_segment
from groupd.pipeline.decode import EntryRows
from groupd.pipeline.inputs import Origin, read_entries
from groupd.pipeline.options import parse_options
from groupd.pipeline.reading import read_partition, segment_files
from groupd.pipeline.row_filter import EVERYTHING
from groupd.pipeline.session import spark_session
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.codec import decode_record
from groupd.storage.open import create_reader
from tests.bench.pipeline.cpu import cpu_seconds, spent

_PAGE_BYTES = 1024 * 1024
MODES = (
    "python-segments",
    "python-store",
    "decoder-segments",
    "spark-segments",
    "spark-store",
    "spark-kafka",
)


def decoded(payloads: Iterable[bytes]) -> int:
    """Decodes every record into an object; how many there were."""
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
    for paths in partition_files(Path(directory)).values():
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


def in_arrow(directory: str) -> int:
    """Just what a task of the data source does, with all columns."""
    options, count = parse_options({"segments": directory}), 0
    for part in segment_files(directory, OFFSETS_LOG, EVERYTHING):
        for rows in read_partition(options, part, EntryRows(), EVERYTHING):
            count += rows.num_rows
    return count


def in_python(mode: str) -> Callable[[str], int]:
    """The function that reads a log in this mode; it returns the number of records."""
    if mode == "decoder-segments":
        return in_arrow
    if mode == "python-segments":
        return lambda log: decoded(of_segments(log))
    return lambda log: asyncio.run(of_store(log))


def in_spark(mode: str, arguments: Sequence[str]) -> Callable[[str], int]:
    """Starts Spark; the function that reads a log. `arguments`: settings of Spark, `master=...` and
    `memory=...`."""
    settings = dict(one.split("=", 1) for one in arguments)
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
    mode, log, warm_up, root, *settings = sys.argv[1:]
    read = in_spark(mode, settings) if mode.startswith("spark") else in_python(mode)
    read(warm_up)
    cpu_before, started = cpu_seconds(int(root)), time.perf_counter()
    count = read(log)
    seconds, cpu = time.perf_counter() - started, spent(cpu_before, cpu_seconds(int(root)))
    print(json.dumps({"records": count, "seconds": seconds, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main()
