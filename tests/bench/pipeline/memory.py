"""Peak memory of a tree of processes, from what the system says of each (Linux)."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_INTERVAL_S = 0.5


class PeakMemory:
    """Watches while it is entered. `total`: most bytes of all processes at once, each counted with
    its share of what is shared; `largest`: most resident bytes of a single one."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.total = 0
        self.largest = 0

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            sizes = [size for pid in descendants(self._root) if (size := _bytes(pid))]
            self.total = max(self.total, sum(share for _, share in sizes))
            self.largest = max([self.largest, *(resident for resident, _ in sizes)])


def descendants(root: int) -> list[int]:
    """`root` and all below it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


def _bytes(pid: int) -> tuple[int, int] | None:
    """(resident, proportional)"""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    kib = {line.split()[0]: int(line.split()[1]) for line in lines[1:] if line.endswith("kB")}
    return kib.get("Rss:", 0) * 1024, kib.get("Pss:", 0) * 1024
