"""How long an answer took, and how much of that the machine took rather than the broker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

TICK_S = 0.005


class Wait(msgspec.Struct):
    """`seconds`: the broker's part of `whole`. `at`: when it began, on the machine's clock.
    `worked`: processor time of the broker meanwhile, in seconds. Nobody else adds to that, however
    busy the machine is."""

    seconds: float
    whole: float
    what: str
    at: float = 0.0
    worked: float = 0.0


class Spread(msgspec.Struct, frozen=True):
    """The 99th percentile and the longest of some times, in seconds."""

    p99: float = 0.0
    longest: float = 0.0

    @classmethod
    def of(cls, times: Iterable[float]) -> Spread:
        ordered = sorted(times)
        return cls(ordered[len(ordered) * 99 // 100], ordered[-1]) if ordered else cls()


class Mark(msgspec.Struct):
    """The moment at which something was asked. `queued`: of each thread that is looked at, the
    seconds in which it was ready to run but others had the processors."""

    at: float
    late: float
    queued: list[tuple[float, float]]
    worked: list[float] = []


class Lateness:
    """How late this process was, and how long the broker's threads were kept from running. `pids`:
    the broker's processes."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._threads = [(pid, pid) for pid in pids]
        self._late = 0.0
        self._ticked = time.monotonic()

    def find_writers(self) -> None:
        """Called while only the honest clients ask: in each process the busiest thread, except the
        first one, writes to the store."""
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
        late = self._late + self._behind()
        return Mark(time.monotonic(), late, self._queued(), self._worked())

    def since(self, mark: Mark, what: str, writes: bool) -> Wait:
        """The wait since the mark. `writes`: the answer waited for the thread that writes as well,
        not only for the loop in the first thread."""
        whole = time.monotonic() - mark.at
        late = self._late + self._behind() - mark.late
        waited = 0.0
        for before, after in zip(mark.queued, self._queued(), strict=True):
            loop, writer = after[0] - before[0], after[1] - before[1]
            waited = max(waited, loop + (writer if writes else 0.0))
        worked = max(b - a for a, b in zip(mark.worked, self._worked(), strict=True))
        return Wait(max(whole - late - waited, 0.0), whole, what, mark.at, worked)

    def _worked(self) -> list[float]:
        return [_processor_s(pid) for pid, _ in self._threads]

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


def _processor_s(pid: int) -> float:
    """The processor seconds of all threads of a process; 0 once it has ended."""
    with suppress(OSError):
        # The clock that clock_getcpuclockid(3) gives, which Python does not have.
        return time.clock_gettime(~pid << 3 | 2)
    return 0.0


def _times(pid: int, thread: int) -> tuple[float, int]:
    """The seconds in which a thread was ready but did not run, and how often it ran."""
    with suppress(OSError):
        _, queued, runs = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
        return int(queued) / 1e9, int(runs)
    return 0.0, 0
