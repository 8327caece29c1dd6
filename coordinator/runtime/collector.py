"""Keeps Python's cycle collector off the loop while a shard is loaded.

A load makes millions of objects and no garbage. Collections on the way would go over all of them
again and again, the last ones for longer than the loop may stall. Small loads are left alone: the
collector belongs to the whole process, which may be somebody's test run.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

PAUSE_RECORDS = 20_000
FREEZE_RECORDS = 1000
"""Smaller loads are left to the collector."""


class LoadingPause:
    """Context manager: no collections inside. May be nested, and entered by several tasks and
    threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._depth = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._was_enabled:
                gc.enable()


loading = LoadingPause()


def pause(records: int) -> AbstractContextManager[object]:
    """For a load of at most `records` records."""
    return loading if records >= PAUSE_RECORDS else nullcontext()


def keep(records: int) -> None:
    """What `records` records were made into is here to stay: the collector need not look at it."""
    if records >= FREEZE_RECORDS:
        gc.freeze()
