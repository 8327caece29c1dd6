"""What an attack costs the broker: memory."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

EVERY_S = 0.05
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
    50 ms, and at the system's own mark of the highest."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self.largest = self.together = 0
        for one in tree(pid):
            with contextlib.suppress(OSError):
                Path(f"/proc/{one}/clear_refs").write_text(_RESET_PEAK)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        now = [_field(pid, "VmRSS:") for pid in tree(self._pid)]
        self.together = max(self.together, sum(now))
        self.largest = max(self.largest, *now)

    def end(self) -> None:
        """Ends the measuring: `largest` and `together` are known now."""
        self._ended.set()
        self._thread.join()
        self._look()
        marks = [_field(pid, "VmHWM:") for pid in tree(self._pid)]
        self.largest = max(self.largest, *marks)
        self.together = max(self.together, self.largest)


def resident(pid: int) -> int:
    """The resident bytes of a process and of all its descendants."""
    return sum(_field(one, "VmRSS:") for one in tree(pid))


def back_to(pid: int, wanted: int, within_s: float) -> tuple[int, float]:
    """Waits until the broker holds no more than that: (bytes held then, seconds waited)."""
    began = time.monotonic()
    while True:
        now, waited = resident(pid), time.monotonic() - began
        if now <= wanted or waited >= within_s:
            return now, waited
        time.sleep(0.2)
