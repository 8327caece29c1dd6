"""What an attack costs the broker: memory and processor time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.proc import cpu_seconds

EVERY_S = 0.05
NOTED_EVERY_S = 0.5
_RESET_PEAK = "5"


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += tree(int(child))
    return found


def _field(pid: int, name: str) -> int:
    """A size in bytes from the status file of a process; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


class Memory:
    """The most resident bytes of a broker: of its largest process, and of all together. Looks every
    50 ms, and at the system's own mark of the highest. `over_time`: (seconds since the begin, bytes
    of all together), every half second. `pids`: its processes, whose children count too."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._ended = threading.Event()
        self._began = time.monotonic()
        self.largest = self.together = 0
        self.over_time: list[tuple[float, int]] = []
        for one in trees(pids):
            with contextlib.suppress(OSError):
                Path(f"/proc/{one}/clear_refs").write_text(_RESET_PEAK)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        now = [_field(pid, "VmRSS:") for pid in trees(self._pids)]
        self.together = max(self.together, sum(now))
        self.largest = max(self.largest, *now)
        at = round(time.monotonic() - self._began, 1)
        if not self.over_time or at - self.over_time[-1][0] >= NOTED_EVERY_S:
            self.over_time.append((at, sum(now)))

    def mark(self) -> None:
        """The attack is over: what the system has seen since the begin counts."""
        marks = [_field(pid, "VmHWM:") for pid in trees(self._pids)]
        self.largest = max(self.largest, *marks)
        self.together = max(self.together, self.largest)

    def end(self) -> None:
        """Ends the measuring."""
        self._ended.set()
        self._thread.join()


def trees(pids: Sequence[int]) -> list[int]:
    """These processes and all below them."""
    return [one for pid in pids for one in tree(pid)]


def resident(pids: Sequence[int]) -> int:
    """The resident bytes of processes and of all their descendants."""
    return sum(_field(one, "VmRSS:") for one in trees(pids))


def processor_s(pids: Sequence[int]) -> float:
    """The processor time that they have used, in seconds; without those that have ended."""
    used = 0.0
    for one in trees(pids):
        with contextlib.suppress(OSError):
            used += cpu_seconds(one)
    return used


def back_to(pids: Sequence[int], wanted: int, within_s: float) -> tuple[int, float]:
    """Waits until the broker holds no more than that: (bytes held then, seconds waited)."""
    began = time.monotonic()
    while True:
        now, waited = resident(pids), time.monotonic() - began
        if now <= wanted or waited >= within_s:
            return now, waited
        time.sleep(0.2)
