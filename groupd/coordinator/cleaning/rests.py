"""What retention and compaction share: the rows that count, and rests between pieces of long work.

Under `--record` this work is replayed, so it has to see the same rows and make the same number of
rests, however fast the machine is.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.coordinator.runtime.turns import Sleep, T
from groupd.storage.log import EXTENTS_MAX, MeasuredLogs, RowExtent

REST_S = 0.002
STEPS = 16
"""Steps of a generator between two rests; one is some hundred records at most."""


async def durable_rows(
    logs: MeasuredLogs, name: str, from_offset: int, end_offset: int, rows_max: int = EXTENTS_MAX
) -> list[RowExtent]:
    """Rows of a log from `from_offset` on that lie below `end_offset`. An append that is under way
    does not count, whether the store has it already or not. Raises LogError."""
    rows = await logs.extents(name, from_offset, rows_max)
    return [row for row in rows if row.last_offset < end_offset]


class Rests:
    """Does what `runtime.turns.Turns` does, but counts steps where those measure time."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._steps = 0

    async def pause(self) -> None:
        self._steps = 0
        await self._sleep(REST_S)

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Drives `steps` to its end."""
        while True:
            self._steps += 1
            if self._steps >= STEPS:
                await self.pause()
            try:
                next(steps)
            except StopIteration as ended:
                result: T = ended.value
                return result
