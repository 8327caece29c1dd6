"""How long an answer took, and how much of that the machine took rather than the broker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

TICK_S = 0.005


class Wait(msgspec.Struct):
    """`seconds`: the broker's part of `whole`. `at`: when it began, on the machine's clock."""

    seconds: float
    whole: float
    what: str
    at: float = 0.0


class Mark(msgspec.Struct):
    """The moment at which something was asked. `queued`: of each thread that is looked at, the
    seconds in which it was ready to run but others had the processors."""

    at: float
    late: float
    queued: list[tuple[float, float]]


class Lateness:
    """`pids`: the broker's processes."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._threads = [(pid, pid) for pid in pids]
        self._late = 0.0
        self._ticked = time.monotonic()

    def find_writers(self) -> None:
        """As long as only the honest ask: in each process the busiest thread, except the first
        one, writes to the store."""
        self._threads = [(pid, _busiest(pid)) for pid, _ in self._threads]

    async def watch(self) -> None:
        """Notices by how much this loop comes too late."""
        while True:
            self._ticked = time.monotonic()
            await asyncio.sleep(TICK_S)
            self._late += self._behind()

    def _behind(self) -> float:
        return max(time.monotonic() - self._ticked - 2 * TICK_S, 0.0)

    def mark(self) -> Mark:
        return Mark(time.monotonic(), self._late + self._behind(), self._queued())

    def since(self, mark: Mark, what: str, writes: bool) -> Wait:
        """`writes`: the answer waited for the thread that writes as well, not only for the loop in
        the first thread."""
        whole = time.monotonic() - mark.at
        late = self._late + self._behind() - mark.late
        waited = 0.0
        for before, after in zip(mark.queued, self._queued(), strict=True):
            loop, writer = after[0] - before[0], after[1] - before[1]
            waited = max(waited, loop + (writer if writes else 0.0))
        return Wait(max(whole - late - waited, 0.0), whole, what, mark.at)

    def _queued(self) -> list[tuple[float, float]]:
        return [
            (_times(pid, pid)[0], _times(pid, writer)[0] if writer != pid else 0.0)
            for pid, writer in self._threads
        ]


def _busiest(pid: int) -> int:
    with suppress(OSError):
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task") if name != str(pid)]
        return max(threads, key=lambda thread: _times(pid, thread)[1], default=pid)
    return pid


def _times(pid: int, thread: int) -> tuple[float, int]:
    """Seconds in which it was ready but did not run, and how often it ran."""
    with suppress(OSError):
        _, queued, runs = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
        return int(queued) / 1e9, int(runs)
    return 0.0, 0
