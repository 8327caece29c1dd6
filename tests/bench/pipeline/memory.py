"""Peak memory of a tree of processes, from what the system says of each (Linux)."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType

from tests.bench.proc import descendants, memory

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
            sizes = []
            for pid in descendants(self._root):
                with suppress(OSError):
                    sizes.append(memory(pid))
            self.total = max(self.total, sum(share for _, share in sizes))
            self.largest = max([self.largest, *(resident for resident, _ in sizes)])
