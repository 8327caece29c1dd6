"""Calls of `Operations` by name, from other threads and other event loops."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

from groupd.coordinator.config.coordinator_config import ConfigError
from groupd.coordinator.daemon.daemon import CannotStart
from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.suggest import did_you_mean
from groupd.testing.arguments import check_arguments
from groupd.testing.errors import InvariantViolation, WaitTimeout
from groupd.testing.operations import Operations

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

EXPECTED = (HarnessError, WaitTimeout, InvariantViolation, CannotStart, ConfigError)
"""The errors that tests may get; any other error is a bug of groupd."""


class BrokerRunner(Protocol):
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


class Hinting:
    """What users get in their hands: a misspelt member is answered with the one that was meant."""

    if not TYPE_CHECKING:  # type checkers must go on to refuse unknown members

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            members = [one for one in dir(self) if not one.startswith("_")]
            hint = did_you_mean(name, members) or f"; it has {', '.join(members)}"
            raise AttributeError(f"{kind} has no {name}{hint}", name=name, obj=self)


class HarnessCalls(Hinting):
    """Calls of `Operations` by name, for the broker at `_host`."""

    _host: BrokerRunner

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        check_arguments(getattr(Operations, name), args, options)
        return result_of(self._host.call(name, *args, **options))

    def _wait(self, name: str, *args: Any, **options: Any) -> Any:
        """Refuse to wait on an event loop, as that would block the clients that it waits for."""
        if on_a_loop():
            raise HarnessError(
                f"{name} would block the running event loop: await c.aio.{name}(...)"
            )
        return self._call(name, *args, **options)


def on_a_loop() -> bool:
    """Whether the caller runs inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Coroutines:
    """The methods of `Operations`, by name, as coroutines for another event loop:
    `await groupd.aio.wait_stable("billing")`. They are described at `GroupCoordinator`."""

    def __init__(self, host: BrokerRunner) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Operations, name):
            known = [one for one in dir(Operations) if not one.startswith("_")]
            raise AttributeError(f"aio has no {name}{did_you_mean(name, known)}")

        @wraps(getattr(Operations, name))
        async def call(*args: Any, **options: Any) -> Any:
            check_arguments(getattr(Operations, name), args, options)
            try:
                return await asyncio.wrap_future(self._host.call(name, *args, **options))
            except EXPECTED as error:
                raise error.with_traceback(None) from None

        return call
