"""Virtual time: a queue of events, the one source of randomness, the trace.

Nothing else in a simulation waits, reads a clock or draws a number, so a seed repeats exactly.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

from tests.simulator.display import show

TRACE_LINES = 400


class Violation(AssertionError):
    """An invariant does not hold."""


class Timer:
    """A scheduled event; cancelling it is cheap."""

    __slots__ = ("arguments", "cancelled", "run")

    def __init__(self, run: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.run = run
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """`now_ms` is true time, that nobody in the simulation sees directly. `after_step` runs when
    an event has run to its end."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.now_ms = 0
        self.steps = 0
        self.random = random.Random(seed)
        self.after_step: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self._queue: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._verbose = verbose
        self._trace: deque[tuple[int, str, tuple[Any, ...]]] = deque(maxlen=TRACE_LINES)
        self._digest = blake2b(digest_size=8)

    def at(self, when_ms: int, run: Callable[..., None], *arguments: Any) -> Timer:
        """Events of one instant run in the order in which they were scheduled."""
        timer = Timer(run, arguments)
        self._sequence += 1
        heappush(self._queue, (max(when_ms, self.now_ms), self._sequence, timer))
        return timer

    def after(self, delay_ms: float, run: Callable[..., None], *arguments: Any) -> Timer:
        return self.at(self.now_ms + int(delay_ms), run, *arguments)

    def run_until(self, end_ms: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            when_ms, _, timer = heappop(queue)
            if timer.cancelled:
                continue
            self.now_ms = when_ms
            self.steps += 1
            timer.run(*timer.arguments)
            if self.failure is not None:
                raise self.failure
            self.after_step()
        self.now_ms = end_ms

    def watched(self, run: Callable[..., None]) -> Callable[..., None]:
        """Wraps a check that runs deep inside the process, which must not take its exception for
        one of its own: the step fails with it when it is through."""

        def guarded(*arguments: Any) -> None:
            try:
                run(*arguments)
            except Exception as error:
                self.failure = self.failure or error
                raise

        return guarded

    # Randomness

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, max(low, high))

    # Trace

    def trace(self, text: str, *facts: Any) -> None:
        """A line of the story; `facts` are formatted only when somebody reads it."""
        self._trace.append((self.now_ms, text, facts))
        self._digest.update(f"{self.now_ms}{text}".encode())
        if self._verbose:
            print(_line(self.now_ms, text, facts))

    def story(self, lines: int) -> list[str]:
        return [_line(*entry) for entry in list(self._trace)[-lines:]]

    def note_bytes(self, payload: bytes) -> None:
        """Something that must be the same, byte for byte, when the run is repeated."""
        self._digest.update(payload)

    def digest(self) -> str:
        """Equal for equal runs."""
        self._digest.update(f"{self.now_ms} {self.steps} {self._sequence}".encode())
        return self._digest.hexdigest()


def _line(now_ms: int, text: str, facts: tuple[Any, ...]) -> str:
    shown = " ".join(map(show, facts))
    return f"{now_ms / 1000:9.3f}  {text} {shown}"
