"""A daemon that notes what keeps its loop busy: `python -m tests.bench.stalls.watched FILE serve
...`. On the standard loop of asyncio, where every callback passes one place; each that takes more
than a millisecond of processor is a line of FILE: when it began (seconds of the monotonic clock),
milliseconds of processor, what it was. Processor time, because on a busy machine the clock also
counts the work of others."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import events
from pathlib import Path

LEAST_MS = 1.0


def watch(path: Path) -> None:
    """Watches this process from now on."""
    file = path.open("w", buffering=1)
    run = events.Handle._run

    def watched(self: events.Handle) -> None:
        started = time.thread_time_ns()
        run(self)
        ms = (time.thread_time_ns() - started) / 1e6
        if ms >= LEAST_MS:
            # The step of a task does not say whose it is.
            owner = getattr(self._callback, "__self__", None)
            what = " ".join(repr(owner if isinstance(owner, asyncio.Task) else self).split())
            file.write(f"{time.monotonic() - ms / 1000:.4f} {ms:.2f} {what}\n")

    events.Handle._run = watched  # type: ignore[method-assign]


def main() -> None:
    import uvloop

    from groupd.coordinator.cli.main import main as command_line

    watch(Path(sys.argv.pop(1)))
    uvloop.new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
    command_line()


if __name__ == "__main__":
    main()
