"""Rests between pieces of long work, which do not depend on how fast the machine is.

Under `--record` this work is replayed: the same work has to make the same number of rests.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.coordinator.runtime.turns import Sleep, T

REST_S = 0.002
STEPS = 16
"""Steps of a generator between two rests; one is some hundred records at most."""


class Rests:
    """`runtime.turns.Turns`, by counting."""

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
