"""A test that hangs in C code, or after its timeout, ends the process that runs it.

pytest-timeout raises an exception in the main thread, once. That does not help while the thread
waits inside a client library, nor if the exception ends a background task of an event loop, nor if
the clean-up waits. Then the whole run would wait.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import math
import os
import threading
import time
from collections.abc import Iterator

import pytest

GRACE_S = 90.0
"""So long after a test's own timeout its process prints every thread's stack and exits."""
LOOK_S = 20.0
"""How often the watching thread looks at the time."""
STANDS_STILL_S = 300.0
"""So long after the watching thread has last come to its turn the process does the same: somebody
keeps Python's lock."""


class Watch(threading.Thread):
    """Ends the process when a test is late. One for all tests: to set an alarm of faulthandler for
    each of them, and to cancel it, takes longer than most tests. `descriptor`: where to print."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(name="hangs", daemon=True)
        self.descriptor = descriptor
        self.late_at_s = math.inf
        """By when the test must have ended, by the monotonic clock."""

    def run(self) -> None:
        told = math.inf
        while True:
            faulthandler.dump_traceback_later(STANDS_STILL_S, exit=True, file=self.descriptor)
            time.sleep(LOOK_S)
            late_at_s = self.late_at_s
            late_s = time.monotonic() - late_at_s
            if late_s > GRACE_S:
                faulthandler.dump_traceback(file=self.descriptor)
                os._exit(1)
            if late_s > GRACE_S / 2 and told != late_at_s:
                told = late_at_s
                self._print_tasks()

    def _print_tasks(self) -> None:
        """The tasks of all event loops; faulthandler only knows threads."""
        with os.fdopen(os.dup(self.descriptor), "w") as out:
            for found in gc.get_objects():
                if isinstance(found, asyncio.Task) and not found.done():
                    found.print_stack(file=out)


_watch = pytest.StashKey[Watch]()


def pytest_configure(config: pytest.Config) -> None:
    """While tests run, pytest keeps what is written to stderr, so this is the time to copy it."""
    watch = config.stash[_watch] = Watch(os.dup(2))
    watch.start()


def pytest_unconfigure() -> None:
    faulthandler.cancel_dump_traceback_later()


def seconds_of(item: pytest.Item) -> float:
    """The timeout of a test, in seconds: its mark's, else that of the command line, else that of
    pyproject.toml. 0: there is none, because somebody looks for a mistake."""
    marker, option = item.get_closest_marker("timeout"), item.config.getoption("timeout")
    if item.config.getoption("usepdb"):
        return 0.0
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    return float(item.config.getini("timeout") if option is None else option)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    watch, most_s = item.config.stash[_watch], seconds_of(item)
    watch.late_at_s = time.monotonic() + most_s if most_s else math.inf
    yield
    watch.late_at_s = math.inf
