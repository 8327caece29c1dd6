"""Requests to stop: SIGTERM, SIGINT, the end of stdin, each as often as it comes.

Programs that start a daemon end it in more than one way at once: Java's `Process.destroy` sends
SIGTERM and closes stdin. So the first request is what counts, and a later one changes nothing. The
signals are caught before anything is loaded, and are ignored once the daemon has stopped, because a
signal that comes while the interpreter ends would otherwise turn a good end into a bad one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """`asked`: there was a request."""

    def __init__(self) -> None:
        self.asked = False
        self._tell: Callable[[], object] | None = None

    def ask(self) -> None:
        """From any thread, and from a signal's handler."""
        self.asked = True
        if self._tell is not None:
            with suppress(RuntimeError):  # the loop has ended before
                self._tell()

    def on_request(self, tell: Callable[[], object]) -> None:
        """Call `tell` at every request, also for those before. It is called as `ask` is."""
        self._tell = tell
        if self.asked:
            tell()


STOP = StopRequest()
"""Signals belong to the process, so there is one of these for each process."""


def catch() -> None:
    """From now on the signals ask for an end."""
    for number in NUMBERS:
        signal.signal(number, lambda *_: STOP.ask())


def ignore() -> None:
    """The process is about to end."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)
