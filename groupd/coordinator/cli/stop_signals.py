"""Requests to stop: SIGTERM, SIGINT, the end of stdin, each as often as it comes.

Programs that start a daemon may end it in more than one way at once: Java's `Process.destroy` sends
SIGTERM and closes stdin. So the first request counts, and later ones change nothing. The signals
are caught before anything is loaded. They are ignored once the daemon has stopped, because a signal
during the interpreter's exit would turn a good end into a failure.
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
        """Ask the daemon to stop. May be called from any thread and from a signal handler."""
        self.asked = True
        if self._tell is not None:
            with suppress(RuntimeError):  # the loop has already ended
                self._tell()

    def on_request(self, tell: Callable[[], object]) -> None:
        """Call `tell` at every request, and at once if there has been one. `tell` may be called
        from any thread and from a signal handler."""
        self._tell = tell
        if self.asked:
            tell()


STOP = StopRequest()
"""Signals belong to the process, so there is one request for each process."""


def catch() -> None:
    """Catch the signals: from now on they ask the daemon to stop."""
    for number in NUMBERS:
        signal.signal(number, lambda *_: STOP.ask())


def ignore() -> None:
    """Ignore the signals, as the process is about to end."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)
