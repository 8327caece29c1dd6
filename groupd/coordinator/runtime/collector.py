"""Keeps Python's cycle collector from stalling the event loop, while a shard is loaded and later.

A load makes millions of objects and no garbage. Collections during a load would examine all of them
again and again, and the last ones would take longer than the loop may stall. For small loads
nothing is changed: the collector belongs to the whole process, which may be a user's test run.

Members that join make as many objects. In a process that belongs to groupd alone, objects that have
survived a full collection are not examined again, so that each full collection is as short as the
first. An object that is in no cycle is freed as always. Tests make sure that connections are in
none.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

PAUSE_RECORDS = 20_000
FREEZE_RECORDS = 1000
"""Loads of fewer records do not stop the collector."""

_FULL = 2

THRESHOLDS = 700, 10, 4
"""Leads to a full collection after some 28,000 new objects that stay: about 5 ms."""


class LoadingPause:
    """A context manager that keeps the collector from running. It may be nested, and several tasks
    and threads may enter it."""

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
    """Returns the pause for a load of at most `records` records; for a small load one that does
    nothing."""
    return loading if records >= PAUSE_RECORDS else nullcontext()


def keep(records: int) -> None:
    """Tell the collector that the objects made of `records` records stay, so that it need not
    examine them. Does nothing in a process that does not belong to groupd: an embedded broker must
    not hide its user's objects from the user's own collector."""
    if records >= FREEZE_RECORDS and _keep_survivors in gc.callbacks:
        gc.freeze()


def serve() -> None:
    """Never examine again what exists now and what will survive a full collection. Called by the
    code that starts a process of groupd alone, never by a class that a test may use."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _keep_survivors not in gc.callbacks:
        gc.callbacks.append(_keep_survivors)
    gc.enable()


def _keep_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == _FULL:
        gc.freeze()
