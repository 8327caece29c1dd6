"""Calls of `Operations` by name, from other threads and other event loops."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, Protocol

from groupd.coordinator.config import ConfigError
from groupd.coordinator.daemon import CannotStart
from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.arguments import check_arguments
from groupd.testing.errors import InvariantViolation, WaitTimeout
from groupd.testing.operations import Operations

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

EXPECTED = (HarnessError, WaitTimeout, InvariantViolation, CannotStart, ConfigError)
"""The errors that tests may get; any other error is a bug of groupd."""


class BrokerHost(Protocol):
    """Where the broker runs."""

    def start(self) -> Future[Any]: ...
    def call(self, name: str, *args: Any, **options: Any) -> Future[Any]: ...
    def close(self) -> None: ...


def result_of(future: Future[Any]) -> Any:
    """The result of the call. An expected error is raised without the frames of the broker's
    thread, as its text says everything; a bug keeps its frames."""
    try:
        return future.result()
    except EXPECTED as error:
        raise error.with_traceback(None) from None


def on_a_loop() -> bool:
    """Whether the caller runs inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Coroutines:
    """The methods of `Operations`, by name, as coroutines for another event loop."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Operations, name):
            raise AttributeError(name)

        async def call(*args: Any, **options: Any) -> Any:
            check_arguments(getattr(Operations, name), args, options)
            try:
                return await asyncio.wrap_future(self._host.call(name, *args, **options))
            except EXPECTED as error:
                raise error.with_traceback(None) from None

        return call
