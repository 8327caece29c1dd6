"""Requests to stop: SIGTERM, SIGINT, and the end of stdin. Each may come more than once.

Programs that start a daemon may stop it in more than one way at once: Java's `Process.destroy`
sends SIGTERM and closes stdin. So the first request counts, and later ones change nothing. The
signals are caught before anything is loaded. They are ignored once the daemon has stopped, because
a signal while the interpreter exits would turn success into a failure.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """`asked`: whether there was a request."""

    def __init__(self) -> None:
        self.asked = False
        self._tell: Callable[[], object] | None = None

    def ask(self) -> None:
        """Asks the daemon to stop. May be called from any thread and from a signal handler."""
        self.asked = True
        if self._tell is not None:
            with suppress(RuntimeError):  # the loop has already ended
                self._tell()

    def on_request(self, tell: Callable[[], object]) -> None:
        """Calls `tell` at every request, and at once if there was one already. `tell` may be called
        from any thread and from a signal handler."""
        self._tell = tell
        if self.asked:
            tell()


STOP = StopRequest()
"""The request of this process: signals are sent to a process, so there is only one."""


def catch() -> None:
    """Catches the signals: from now on they request a stop."""
    for number in NUMBERS:
        signal.signal(number, lambda *_: STOP.ask())


def ignore() -> None:
    """Ignores the signals, as the process is about to end."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)
