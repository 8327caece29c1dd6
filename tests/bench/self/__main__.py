"""Measures groupd alone on this machine and prints a table.

Usage: `python -m tests.bench.self [--seconds N] ...`, or `make bench-self ARGS="..."`. The load
generator is this process, the daemon another one, both on loopback. Figures of different machines,
or of different runs on a busy one, do not compare: quote ratios of one run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.bench.daemon_process import DaemonProcess
from tests.bench.fill import fill
from tests.bench.self import workloads
from tests.bench.self.members import TOPIC
from tests.bench.self.workloads import Figure

TEST_FLAGS = ("--topic", f"{TOPIC}:100")


def bench(
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds for each timed workload.")] = 5.0,
    members: Annotated[
        int, typer.Option(min=1, help="Members for the join and memory figures.")
    ] = 10_000,
    offsets: Annotated[
        int, typer.Option(min=1, help="Committed offsets for the recovery figures.")
    ] = 100_000,
    history: Annotated[int, typer.Option(min=1, help="How often each of them was committed.")] = 3,
    only_recovery: Annotated[
        bool, typer.Option("--only-recovery", help="Measure nothing but recovery.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Store URL of the daemon under test; default SQLite.")
    ] = None,
) -> None:
    """Measure heartbeats, commits, fetches, joins, memory and recovery on this machine."""
    import uvloop

    flags = (*TEST_FLAGS, *(("--store", store) if store else ()))
    figures: list[Figure] = []
    if not only_recovery:
        figures += _served(uvloop, flags, members, seconds)
    records = offsets * history
    figures += workloads.recovery(
        lambda path: uvloop.run(fill(path, store, offsets, records)), flags, offsets, records
    )
    # Only the scheme: what follows may hold a password.
    _print(figures, store.partition(":")[0] if store else "SQLite, synchronous=FULL")


def _served(loop: Any, flags: tuple[str, ...], members: int, seconds: float) -> list[Figure]:
    figures: list[Figure] = []
    for count, window in ((100, 1), (100, 8), (1000, 1)):
        figures += _measure(loop, flags, partial(_heartbeats, count, window, seconds))
    figures += _measure(loop, flags, lambda d: _commits_and_fetches(d, seconds))
    figures += _measure(loop, flags, lambda d: workloads.joins_and_memory(d, members))
    return figures


async def _heartbeats(
    members: int, window: int, seconds: float, daemon: DaemonProcess
) -> list[Figure]:
    return [await workloads.steady_heartbeats(daemon, members, window, seconds)]


async def _commits_and_fetches(daemon: DaemonProcess, seconds: float) -> list[Figure]:
    return [
        await workloads.commits(daemon, 1, 1, seconds),
        await workloads.commits(daemon, 100, 10, seconds),
        await workloads.fetches(daemon, 100, seconds),
    ]


def _measure(
    loop: Any,
    flags: tuple[str, ...],
    workload: Callable[[DaemonProcess], Coroutine[Any, Any, list[Figure]]],
) -> list[Figure]:
    """Measures each workload on a fresh daemon, so that none pays for another."""
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        path = Path(directory)
        with DaemonProcess(*flags, data_dir=path) as daemon:
            figures: list[Figure] = loop.run(workload(daemon))
            return figures


def _print(figures: list[Figure], store: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"groupd on this machine; store: {store}")
    for column in ("workload", "rate", "unit", "daemon CPU", "p50", "p99", ""):
        table.add_column(column, justify="left" if column in ("workload", "") else "right")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.rate:,.0f}" if figure.rate >= 100 else f"{figure.rate:,.1f}",
            figure.unit,
            _cell(figure.cpu_us, "{:.1f} us"),
            _cell(figure.p50_ms, "{:.2f} ms"),
            _cell(figure.p99_ms, "{:.2f} ms"),
            figure.note,
        )
    Console(width=140).print(table)


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


if __name__ == "__main__":
    typer.run(bench)
