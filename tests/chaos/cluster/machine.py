"""Whether the machine itself stood still. A virtual machine may get no processor for many seconds;
all leases and timeouts end meanwhile, whatever groupd does."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

TICK_S = 0.05
LATE_S = 0.3
"""A sleep that takes so much longer counts. A busy Python process is late by less."""

FOR_EACH_S = 10.0
"""Seconds that everything may take longer for each that the machine stood still: sessions end,
nodes join again and shards are loaded again."""


class StandStills(threading.Thread):
    """Measures from `start` to `stop`; until then `total_s` grows."""

    def __init__(self) -> None:
        super().__init__(name="stand-stills", daemon=True)
        self.total_s = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        before = time.monotonic()
        while not self._over.wait(TICK_S):
            now = time.monotonic()
            late_s = now - before - TICK_S
            if late_s > LATE_S:
                self.total_s += late_s
            before = now

    def stop(self) -> None:
        self._over.set()
        self.join()


CALM_EVERY_S = 1.0
NICEST = 19


class CalmThreads(threading.Thread):
    """Gives the threads that librdkafka has in this process for each broker what processor time
    nobody else wants, from `start` to `stop`: they may run without a pause (docs/clients.md)."""

    def __init__(self) -> None:
        super().__init__(name="calm-threads", daemon=True)
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(CALM_EVERY_S):
            for task in Path("/proc/self/task").iterdir():
                with suppress(OSError):  # it may have ended
                    if (task / "comm").read_text().startswith("rdk:broker"):
                        os.setpriority(os.PRIO_PROCESS, int(task.name), NICEST)

    def stop(self) -> None:
        self._over.set()
        self.join()


class Patience:
    """A deadline that moves when the machine stands still. It also counts what `stills` has had
    since `since_s`, a `total_s` of before."""

    def __init__(self, stills: StandStills, timeout_s: float, since_s: float) -> None:
        self._stills = stills
        self._since_s = since_s
        self._ends = time.monotonic() + timeout_s

    @property
    def over(self) -> bool:
        stood_s = self._stills.total_s - self._since_s
        return time.monotonic() > self._ends + FOR_EACH_S * stood_s
