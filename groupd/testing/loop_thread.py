"""An event loop on a thread of its own that runs an engine and takes calls from any thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import uvloop

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.logs import log_through_stdlib
from groupd.testing.engine import Engine, HarnessOptions
from groupd.testing.operations import Operations

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class LoopThread:
    """A broker on a thread. `start` comes first, then any number of `call`s from any thread, then
    `close`."""

    def __init__(self, options: HarnessOptions) -> None:
        log_through_stdlib()
        self._engine = Engine(options)
        self._loop = uvloop.new_event_loop()
        self._operations = Operations(self._engine)
        if options.control:
            from groupd.testing.control_api import ControlApi

            self._engine.control = ControlApi(self._operations)
        self._thread = threading.Thread(target=self._run, name="groupd", daemon=True)
        self._closed = False

    def start(self) -> Future[Any]:
        """Begin to start the broker. The future's result is None, or it has the error (CannotStart,
        ...)."""
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._engine.start(), self._loop)

    def call(self, name: str, *args: Any, **options: Any) -> Future[Any]:
        """Call one of `Operations` by name."""
        if self._closed:
            raise HarnessError("the broker is closed")
        coroutine = getattr(self._operations, name)(*args, **options)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Stop the broker and the thread. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(self._engine.stop(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:  # waits whose callers have gone away
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            asyncio.set_event_loop(None)
