"""The writer of a worker: appends follow each other without waiting for the one before.

The main process gathers the appends of all workers for its next transaction. A worker that sent its
next one only after the last was answered would come too late for it every other time. So
there may be several under way; a source takes part in one of them at a time, as in `LogWriter`, and
what it gathers meanwhile goes with its next one.
"""

from __future__ import annotations

import asyncio

from groupd.coordinator.runtime.writer import LogWriter, Source, Taken
from groupd.storage.log import PartitionLogs

UNDER_WAY_MAX = 16


class PipelinedWriter(LogWriter):
    def __init__(self, logs: PartitionLogs) -> None:
        super().__init__(logs)
        self._writes: set[asyncio.Task[None]] = set()
        self._taking_part: set[Source] = set()

    @property
    def busy(self) -> bool:
        return bool(self._writes or self._dirty)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._send()
            if self._closing and not self.busy:
                self._closed = True
                return

    def _send(self) -> None:
        while len(self._writes) < UNDER_WAY_MAX:
            free = [source for source in self._dirty if source not in self._taking_part]
            if not free:
                return
            taken, waiting_since = self._take(free)
            self._start(taken, waiting_since)

    def _start(self, taken: list[Taken], waiting_since: list[int]) -> None:
        sources = {source for source, _ in taken}
        self._taking_part |= sources

        def ended(write: asyncio.Task[None]) -> None:
            self._writes.discard(write)
            self._taking_part -= sources
            self._wake.set()

        write = asyncio.get_running_loop().create_task(self._write(taken, waiting_since))
        self._writes.add(write)
        write.add_done_callback(ended)
