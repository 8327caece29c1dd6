"""docs/log.md shows what it says: its console blocks are run, in order, in one directory that has
a groupd store and the log directory of a (stopped) Kafka broker."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from groupd.coordinator.core.partitioning import partition_for
from groupd.protocol.records.schema import OffsetCommitValue, Record
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.storage.log import StoredTopic
from tests.support.daemon import ROOT
from tests.unit.logtools.harness import (
    ORDERS_ID,
    TIME_MS,
    batch,
    classic,
    commit,
    consumer,
    make_store,
    marker,
    write_segment,
)
from tests.unit.logtools.share_logs import fill_state, home_of, snapshot, state_batch, update

PAGE = ROOT / "docs" / "log.md"
SHARDS = 50


async def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    await prepare(tmp_path)
    text = PAGE.read_text()
    assert rewritten(text, tmp_path) == text, "run `python -m tests.daemon.test_log_page`"


def rewritten(text: str, directory: Path) -> str:
    """The page with what its commands print now."""
    out, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```console"
            out.append(line)
        elif not inside:
            out.append(line)
        elif line.startswith("$ "):
            out += [line, *printed(line[2:], directory)]
    return "\n".join(out) + "\n"


def printed(command: str, directory: Path) -> list[str]:
    """stdout and stderr of one line."""
    program, *arguments = shlex.split(command)
    if program == "groupd":
        argv = [sys.executable, "-m", "groupd", *arguments]
    else:
        argv = [program, *arguments]
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout
    return done.stdout.splitlines()


def committed(offset: int, group: str, partition: int) -> Record:
    record = commit(offset, group, "orders", partition)
    assert isinstance(record.value, OffsetCommitValue)
    return Record(record.key, record.value._replace(metadata="", leader_epoch=0))


async def prepare(directory: Path) -> None:
    """`groupd-data`: billing, of both kinds of commit, audit, and the state of the share group
    jobs. `kafka-logs`: shipping."""
    shard = partition_for("billing", SHARDS)
    billing = [
        batch(0, committed(40, "billing", 0), committed(17, "billing", 1)),
        batch(2, committed(42, "billing", 0), time_ms=TIME_MS + 60_000, producer=1000),
        marker(3, 1000, commit=True),
        batch(4, classic("billing", members=0), time_ms=TIME_MS + 61_000),
    ]
    audit = batch(0, *consumer("audit"), committed(5, "audit", 1))
    await make_store(
        directory / "groupd-data",
        {shard: billing, partition_for("audit", SHARDS): [audit]},
        [StoredTopic(ORDERS_ID, "orders", 2)],
        SHARDS,
    )
    jobs = SharePartitionKey("jobs", ORDERS_ID, 0)
    state = state_batch(
        0, snapshot(0, 0, key=jobs), update(0, 0, (0, 6, 2, 1), (7, 9, 0, 1), key=jobs, complete=7)
    )
    await fill_state(directory / "groupd-data", home_of(jobs), state)
    kafka = directory / "kafka-logs"
    shipping = batch(120, classic("shipping", members=0), committed(9_000, "shipping", 2))
    write_segment(kafka, partition_for("shipping", SHARDS), shipping)
    for number in range(6):
        (kafka / f"orders-{number}").mkdir()
        metadata = kafka / f"orders-{number}" / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w\n")


if __name__ == "__main__":
    import asyncio
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        asyncio.run(prepare(Path(place)))
        PAGE.write_text(rewritten(PAGE.read_text(), Path(place)))
