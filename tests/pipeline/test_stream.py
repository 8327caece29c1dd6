"""The data source `groupd` as a stream: limits, resuming, and what the cleaner took away."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.options import parse_options
from groupd.pipeline.source import GroupdDataSource
from groupd.pipeline.stream import GroupdStreamReader
from groupd.storage.log import Append, Replacement, StoredBatch
from groupd.storage.open import create_store
from tests.support.daemon import ROOT
from tests.support.pipeline_logs import AWAY, LOGS, ROWS, fill_store
from tests.support.stream_to_parquet import copying
from tests.unit.logtools.harness import HOME, PARTITIONS, TIME_MS, G, batch, commit

EMPTY = [number for number in range(PARTITIONS) if number not in (HOME, AWAY)]


def url_of(directory: Path) -> str:
    return f"sqlite+aiosqlite:///{directory}/groupd.sqlite"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill_store(url_of(tmp_path))
    return tmp_path


def stream(store: Path, **options: str) -> GroupdStreamReader:
    texts = {"store": url_of(store), **options}
    return GroupdStreamReader(parse_options(texts), ("log_partition", "log_offset"))


def offsets_read(
    reader: GroupdStreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
) -> list[tuple[int, int]]:
    found = []
    for part in reader.partitions(start, end):
        for rows in reader.read(part):
            found += [(row["log_partition"], row["log_offset"]) for row in rows.to_pylist()]
    return sorted(found)


ALL = sorted((p, o) for p, count in ((HOME, 12), (AWAY, 22)) for o in range(count))


def test_micro_batches_are_limited_and_miss_nothing(store: Path) -> None:
    reader = stream(store, maxRowsPerBatch="10")
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    at, found, sizes = reader.initialOffset(), [], []
    while (end := reader.latestOffset(at, ReadMaxRows(10))) != at:
        rows = offsets_read(reader, at, end)
        sizes.append(len(rows))
        found += rows
        at = end
    assert sorted(found) == ALL
    assert sizes == [10, 10, 10, 4]
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == at
    reader.stop()


def test_a_limit_below_the_number_of_logs_still_gets_on(store: Path) -> None:
    reader = stream(store)
    at, steps = reader.initialOffset(), 0
    while (end := reader.latestOffset(at, ReadMaxRows(1))) != at:
        at, steps = end, steps + 1
    assert steps == ROWS
    reader.stop()


def test_where_a_stream_starts(store: Path) -> None:
    for text, expected in (("latest", 22), ("earliest", 0), (f'{{"{AWAY}": 5}}', 5)):
        reader = stream(store, startingOffsets=text)
        assert reader.initialOffset()[str(AWAY)]["offset"] == expected
        reader.stop()
    with pytest.raises(PipelineError, match="segment files do not grow"):
        GroupdStreamReader(parse_options({"segments": "x"}), ())


def test_available_now_ends_where_the_log_ended(store: Path) -> None:
    reader = stream(store)
    reader.prepareForTriggerAvailableNow()
    asyncio.run(append(store, AWAY, batch(22, commit(1))))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end[str(AWAY)]["offset"] == 22
    reader.stop()


async def append(directory: Path, partition: int, payload: bytes, count: int = 1) -> None:
    store = create_store(url_of(directory), ".")
    await store.start()
    state = await store.open(offsets_log_name(partition))
    last = state.next_offset + count - 1
    await store.append(
        [Append(state.name, state.owner_epoch, state.next_offset, last, TIME_MS, payload)]
    )
    await store.close()


async def clean(directory: Path, partition: int, until: int) -> None:
    """Does what the cleaner does: the rows before `until` become one, from which a record is
    gone."""
    store = create_store(url_of(directory), ".")
    await store.start()
    state = await store.open(offsets_log_name(partition))
    left = (StoredBatch(0, until - 1, TIME_MS, LOGS[partition][0]),)
    await store.replace(Replacement(state.name, state.owner_epoch, 0, until, left, until))
    await store.close()


def test_what_was_cleaned_before_the_stream_began_is_no_loss(store: Path) -> None:
    asyncio.run(clean(store, HOME, 8))
    reader = stream(store)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(3))
    middle = reader.latestOffset(end, ReadAllAvailable())
    found = offsets_read(reader, start, end) + offsets_read(reader, end, middle)
    gaps = [(HOME, offset) for offset in range(3, 8)]
    assert sorted(found) == [place for place in ALL if place not in gaps]
    reader.stop()


def test_cleaning_behind_a_stream_is_no_loss(store: Path) -> None:
    reader = stream(store)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    asyncio.run(clean(store, HOME, 8))
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    reader.stop()


def test_cleaning_ahead_of_a_stream_is_told(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = stream(store, startingOffsets=f'{{"{HOME}": 3}}')
    start = reader.initialOffset()
    planned = reader.latestOffset(start, ReadAllAvailable())
    asyncio.run(clean(store, HOME, 8))
    told = "offsets 3 to 7 have been cleaned before they were read"
    # Either the next plan or a task of the last plan is the first to notice it; both raise.
    with pytest.raises(PipelineError, match=told):
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(PipelineError, match=told):
        offsets_read(reader, start, planned)
    reader.stop()
    lenient = stream(store, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert told in capsys.readouterr().err
    assert end[str(HOME)] == {"offset": 12, "cleaned": 8}
    assert lenient.latestOffset(end, ReadAllAvailable()) == end
    assert capsys.readouterr().err == ""
    lenient.stop()


def test_another_store_is_told(store: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    reader = stream(store)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()
    other = tmp_path_factory.mktemp("other")
    fill_store(url_of(other), {HOME: LOGS[HOME][:1]})
    reader = stream(other)
    with pytest.raises(PipelineError, match="it is not the log that was read before"):
        reader.latestOffset(end, ReadAllAvailable())
    reader.stop()


def test_a_stream_resumes_from_its_checkpoint(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    spark.dataSource.register(GroupdDataSource)
    options = {"store": url_of(store), "maxRowsPerBatch": "20"}
    out = tmp_path / "out"

    def once() -> int:
        frame = spark.readStream.format("groupd").options(**options).load()
        writer = frame.select("log_partition", "log_offset").writeStream.format("parquet")
        query = (
            writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out))
        )
        query.awaitTermination()
        return len([one for one in query.recentProgress if one["numInputRows"]])

    assert once() == 2
    asyncio.run(append(store, EMPTY[0], batch(0, commit(1))))
    assert once() == 1
    rows = spark.read.parquet(str(out)).collect()
    assert sorted(map(tuple, rows)) == sorted([*ALL, (EMPTY[0], 0)])


class Writer(threading.Thread):
    """Appends commits, as a daemon does, until it is told to stop."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self._enough = threading.Event()
        self.written = 0

    def run(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        store = create_store(url_of(self._directory), ".")
        await store.start()
        names = [offsets_log_name(number) for number in range(PARTITIONS)]
        states = await store.open_many(names)
        ends = {name: state.next_offset for name, state in states.items()}
        while not self._enough.is_set():
            name = names[self.written % len(names)]
            at = ends[name]
            payload = batch(at, commit(at), commit(at + 1, G, "orders", 1))
            epoch = states[name].owner_epoch
            await store.append([Append(name, epoch, at, at + 1, TIME_MS, payload)])
            ends[name] = at + 2
            self.written += 1
            await asyncio.sleep(0.05)
        await store.close()

    def stop(self) -> None:
        self._enough.set()
        self.join(30)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_killed_and_restarted_at_random_every_record_is_there_once(
    spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    fill_store(url_of(tmp_path), {})
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    command = [sys.executable, "-m", "tests.support.stream_to_parquet", url_of(tmp_path)]
    command += [str(out), str(checkpoint)]
    chance = random.Random(os.urandom(4))
    writer = Writer(tmp_path)
    writer.start()
    try:
        for _ in range(kills):
            with (tmp_path / "stream.log").open("wb") as log:
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            try:
                assert process.stdout is not None
                said = process.stdout.readline()
                assert said.startswith("batch"), (tmp_path / "stream.log").read_text()[-3000:]
                threading.Event().wait(chance.uniform(0, 1.5))
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    finally:
        writer.stop()
    # What goes on where it was killed last need not be another process.
    last = copying(spark, url_of(tmp_path), str(out), str(checkpoint), once=True)
    last.awaitTermination()
    rows = spark.read.parquet(str(out)).select("log_partition", "log_offset").collect()
    found = sorted(map(tuple, rows))
    ends = [sum(2 for n in range(writer.written) if n % PARTITIONS == p) for p in range(PARTITIONS)]
    assert found == sorted((p, offset) for p, end in enumerate(ends) for offset in range(end))
