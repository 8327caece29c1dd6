"""The workloads: steady heartbeats, joins, durable commits, offset fetches, memory."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from msgspec import Struct

from tests.bench import frames
from tests.bench.daemon_process import DaemonProcess
from tests.bench.self.load import LoadConnection, connect, run_for
from tests.bench.self.members import GROUP_SIZE, TOPIC, JoinedMembers, member_names

DIRTY_MAX = 50 * 1000
"""The cleaner leaves 50 shards alone while they have fewer records than this."""


class Figure(Struct, frozen=True):
    """One measured line: what, how many a second, what it cost."""

    name: str
    rate: float
    unit: str
    cpu_us: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    note: str = ""


def _figure(
    name: str, unit: str, loads: list[LoadConnection], seconds: float, cpu: float, note: str = ""
) -> Figure:
    count = sum(load.replies for load in loads)
    latencies = sorted(itertools.chain.from_iterable(load.latencies for load in loads))
    return Figure(
        name,
        count / seconds,
        unit,
        cpu_us=cpu / count * 1e6,
        p50_ms=statistics.median(latencies) * 1000,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1000,
        note=note,
    )


def recovery(
    fill: Callable[[Path], None], flags: tuple[str, ...], offsets: int, records: int
) -> list[Figure]:
    """The start of a daemon with `offsets` committed offsets in a log of `records`; a second one
    when the cleaner has been there."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        path = Path(directory)
        fill(path / "data")
        fast = ("--set", "log.cleaner.backoff.ms=200")
        for what in ("as written", "cleaned"):
            started = perf_counter()
            with DaemonProcess(*flags, *fast, data_dir=path, ready_timeout_s=600) as daemon:
                seconds = perf_counter() - started
                stall_ms = 1000 * daemon.metric("groupd_event_loop_stall_seconds")
                cpu_us = daemon.cpu_seconds() / offsets * 1e6
                name = f"start with {offsets:,} offsets, {what}"
                note = f"{seconds:.1f} s, longest stall {stall_ms:.0f} ms"
                figures.append(
                    Figure(name, offsets / seconds, "offsets/s", cpu_us=cpu_us, note=note)
                )
                if records > offsets and what == "as written":
                    _wait_for_cleaner(daemon)
            if records <= offsets:
                break
    return figures


def _wait_for_cleaner(daemon: DaemonProcess) -> None:
    """Waits until the cleaner finds nothing more that is worth its work."""
    before = -1.0
    while (dirty := daemon.metric("groupd_cleaner_dirty_records")) != before or dirty > DIRTY_MAX:
        before = dirty
        time.sleep(5)


async def steady_heartbeats(
    daemon: DaemonProcess, members: int, window: int, seconds: float
) -> Figure:
    """Settled KIP-848 members, a connection each, `window` heartbeats in flight."""
    joined = JoinedMembers(member_names(members), min(members, 50), lambda _: daemon.kafka)
    await joined.join()
    await joined.settle()
    loads = []
    for group, member in joined.members:
        frame = joined.steady(group, member)
        loads.append(await connect(daemon.kafka, itertools.repeat(frame), window))
    cpu = daemon.cpu_seconds()
    elapsed = await run_for(loads, seconds)
    figure = _figure(
        f"heartbeats, {members} members, {window} in flight",
        "heartbeats/s",
        loads,
        elapsed,
        daemon.cpu_seconds() - cpu,
    )
    for load in loads:
        load.close()
    return figure


async def commits(
    daemon: DaemonProcess, connections: int, partitions: int, seconds: float
) -> Figure:
    """Durable OffsetCommits of simple groups, one in flight a connection."""
    loads = [
        await connect(
            daemon.kafka,
            itertools.repeat(frames.offset_commit(f"commit-{i}", TOPIC, partitions, 42)),
        )
        for i in range(connections)
    ]
    cpu = daemon.cpu_seconds()
    elapsed = await run_for(loads, seconds)
    figure = _figure(
        f"commits of {partitions} partitions, {connections} connections",
        "commits/s",
        loads,
        elapsed,
        daemon.cpu_seconds() - cpu,
    )
    for load in loads:
        load.close()
    return figure


async def fetches(daemon: DaemonProcess, connections: int, seconds: float) -> Figure:
    """OffsetFetch of 10 partitions."""
    loads = [
        await connect(daemon.kafka, itertools.repeat(frames.offset_fetch(f"commit-{i}", TOPIC, 10)))
        for i in range(connections)
    ]
    cpu = daemon.cpu_seconds()
    elapsed = await run_for(loads, seconds)
    figure = _figure(
        f"offset fetches of 10 partitions, {connections} connections",
        "fetches/s",
        loads,
        elapsed,
        daemon.cpu_seconds() - cpu,
    )
    for load in loads:
        load.close()
    return figure


async def joins_and_memory(daemon: DaemonProcess, members: int) -> list[Figure]:
    """Members join groups of ten; the rate, and the memory that they cost."""
    daemon.settle()
    before = daemon.resident_bytes()
    joined = JoinedMembers(member_names(members), 50, lambda _: daemon.kafka)
    cpu = daemon.cpu_seconds()
    seconds = await joined.join()
    cpu = daemon.cpu_seconds() - cpu
    await asyncio.sleep(0)
    daemon.settle()
    grown = daemon.resident_bytes() - before
    return [
        Figure(
            f"joins, {members} members in groups of {GROUP_SIZE}",
            members / seconds,
            "joins/s",
            cpu_us=cpu / members * 1e6,
        ),
        Figure(
            "resident memory for 10,000 members",
            grown / members * 10_000 / 1e6,
            "MB",
            note=f"idle daemon {before / 1e6:.0f} MB",
        ),
    ]
