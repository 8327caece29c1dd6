"""`python -m tests.bench.open_pages`: what open pages of the console cost. Heartbeats of members of
small groups, one after the other on one connection, by turns with 50 streams of the console open
and without any: the medians, their ratio, and what the daemon's processor did."""

from __future__ import annotations

import argparse
import asyncio
import selectors
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.bench.figures import machine
from tests.bench.stalls import requests
from tests.bench.stalls.store import Sizes, fill, small
from tests.support.daemon import Daemon

SIZES = Sizes(huge=10, members=10_000, offsets=20_000, laps=1)
PAGES = (
    ("/live/groups", 20),
    ("/live/health", 10),
    *((f"/live/groups/{small(at)}", 2) for at in range(10)),
)
"""Paths, and how many pages have each open: 50 in all."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.open_pages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupd-pages-") as directory:
        path = Path(directory)
        asyncio.run(fill(path / "data", SIZES))
        settings = {
            "group.consumer.session.timeout.ms": "3600000",
            "group.consumer.max.session.timeout.ms": "3600000",
        }
        daemon = Daemon(path, settings=settings, arguments=["--log-level", "warning"])
        daemon.start()
        try:
            _measure(daemon, options.rounds, options.seconds)
        finally:
            daemon.stop()


def _measure(daemon: Daemon, rounds: int, seconds: float) -> None:
    client = requests.Client((daemon.host, daemon.port))
    frames = [requests.heartbeat(small(at), 0) for at in range(500)]
    without: list[float] = []
    with_pages: list[float] = []
    cpu: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for pages, rates in ((False, without), (True, with_pages)):
            with _open_pages(daemon, pages):
                before = _cpu_s(daemon.pid)
                rates.append(_heartbeats(client, frames, seconds))
                cpu[pages].append((_cpu_s(daemon.pid) - before) / (rates[-1] * seconds) * 1e6)
    bare, busy = statistics.median(without), statistics.median(with_pages)
    print(machine() + "\n")
    print("| | heartbeats a second | processor for one, us |")
    print("|---|---|---|")
    print(f"| no page | {bare:,.0f} | {statistics.median(cpu[False]):.1f} |")
    print(f"| 50 open pages | {busy:,.0f} | {statistics.median(cpu[True]):.1f} |")
    print(f"| ratio | {busy / bare:.3f} | |")


def _heartbeats(client: requests.Client, frames: list[bytes], seconds: float) -> float:
    """How many are answered in a second."""
    count, until = 0, time.monotonic() + seconds
    started = time.monotonic()
    while time.monotonic() < until:
        for frame in frames:
            client.ask(frame)
        count += len(frames)
    return count / (time.monotonic() - started)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def _open_pages(daemon: Daemon, wanted: bool) -> Iterator[None]:
    """50 streams, which a thread reads; or none."""
    if not wanted:
        yield
        return
    selector = selectors.DefaultSelector()
    for path, count in PAGES:
        for _ in range(count):
            page = socket.create_connection((daemon.host, daemon.admin_port))
            page.sendall(f"GET {quote(path)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            selector.register(page, selectors.EVENT_READ)
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            for key, _ in selector.select(0.1):
                assert key.fileobj.recv(1 << 20), "a stream has ended"  # type: ignore[union-attr]

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(2)  # the first events are no steady state
    try:
        yield
    finally:
        ended.set()
        reader.join()
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        selector.close()


if __name__ == "__main__":
    main()
