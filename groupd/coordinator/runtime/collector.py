"""Keeps Python's cycle collector from stalling the loop: while a shard is loaded, and at work.

A load makes millions of objects and no garbage. Collections on the way would go over all of them
again and again, the last ones for longer than the loop may stall. Small loads are left alone: the
collector belongs to the whole process, which may be somebody's test run.

Members that join make as many. In a process that is groupd's own, what has outlived a full
collection is not looked at again, so that each one is as short as the first. What dies without
being part of a cycle is freed as ever; tests see to it that connections do.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

PAUSE_RECORDS = 20_000
FREEZE_RECORDS = 1000
"""Smaller loads are left to the collector."""

_FULL = 2

THRESHOLDS = 700, 10, 4
"""A full collection after some 28,000 new objects that stay: about 5 ms."""


class LoadingPause:
    """A context manager that keeps the collector from running. It may be nested, and entered by
    several tasks and threads."""

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
    """The pause for a load of at most `records` records; a small load gets none."""
    return loading if records >= PAUSE_RECORDS else nullcontext()


def keep(records: int) -> None:
    """Tell the collector that the objects made of `records` records stay, so it need not look at
    them.

    This does something only in a process that serves: an embedded broker must not hide its user's
    objects from the user's own collector."""
    if records >= FREEZE_RECORDS and _keep_survivors in gc.callbacks:
        gc.freeze()


def serve() -> None:
    """Make all objects that exist now, and all that outlive a full collection, stay for good.
    Called by what starts a process that does nothing else, never by a class that a test may use."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _keep_survivors not in gc.callbacks:
        gc.callbacks.append(_keep_survivors)
    gc.enable()


def _keep_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == _FULL:
        gc.freeze()
