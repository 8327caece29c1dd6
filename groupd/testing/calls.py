"""Calls the methods of `Operations` from other threads and other event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.daemon.daemon import CannotStart
from groupd.coordinator.faults.errors import HarnessError, InvariantViolation, WaitTimeout
from groupd.coordinator.suggest import did_you_mean
from groupd.testing.arguments import check_arguments
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
    """The result of the call. Raises an expected error without the frames of the broker's thread,
    because its text says everything. Any other error is a bug, and keeps its frames."""
    try:
        return future.result()
    except EXPECTED as error:
        raise error.with_traceback(None) from None


class SpellingHints:
    """Base of what tests use. The error for a misspelt attribute suggests the right one."""

    if not TYPE_CHECKING:  # type checkers must go on to refuse unknown members

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            members = [one for one in dir(self) if not one.startswith("_")]
            hint = did_you_mean(name, members) or f"; it has {', '.join(members)}"
            raise AttributeError(f"{kind} has no {name}{hint}", name=name, obj=self)


Call = Callable[..., Any]
"""Calls a method of `Operations` by name: call(name, *args, **options)."""
P = ParamSpec("P")
R = TypeVar("R")


class Calling(Protocol):
    """An object with methods that `blocking` has made."""

    @property
    def _call(self) -> Call: ...


def blocking(
    operation: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Calling, P], R]:
    """Makes a plain method from a coroutine method of `Operations`. The plain method returns when
    the broker has done the work. A wait method raises HarnessError on an event loop, because it
    would block the clients that it waits for."""
    name = operation.__name__

    @wraps(operation)
    def call(self: Calling, /, *args: P.args, **options: P.kwargs) -> R:
        if name.startswith("wait_") and on_a_loop():
            raise HarnessError(
                f"{name} would block the running event loop: await c.aio.{name}(...)"
            )
        found: R = self._call(name, *args, **options)
        return found

    return call


def call_checked(
    host: BrokerRunner, name: str, args: Any, options: Mapping[str, Any]
) -> Future[Any]:
    """Check the arguments of a call, and send it to the broker. Iterables are sent as lists,
    because the broker may be in another process."""
    check_arguments(getattr(Operations, name), args, options)
    given = {key: _listed(value) for key, value in options.items()}
    return host.call(name, *map(_listed, args), **given)


def _listed(value: Any) -> Any:
    plain = isinstance(value, str | bytes | Mapping | list | tuple)
    return list(value) if isinstance(value, Iterable) and not plain else value


def on_a_loop() -> bool:
    """Whether the caller runs inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Coroutines:
    """The methods of `Operations`, by name, as coroutines for another event loop:
    `await groupd.aio.wait_stable("billing")`."""

    def __init__(self, host: BrokerRunner) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Operations, name):
            known = [one for one in dir(Operations) if not one.startswith("_")]
            raise AttributeError(f"aio has no {name}{did_you_mean(name, known)}")

        @wraps(getattr(Operations, name))
        async def call(*args: Any, **options: Any) -> Any:
            try:
                return await asyncio.wrap_future(call_checked(self._host, name, args, options))
            except EXPECTED as error:
                raise error.with_traceback(None) from None

        return call
