"""A broker that is about to start, for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Protocol, TypedDict, TypeVar

from groupd.testing.acl_rules import AclRule
from groupd.testing.security import Mechanism, SecurityProtocol

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class StartOptions(TypedDict, total=False):
    """The options of `GroupCoordinator.start` beside topics and config."""

    clock: str | float
    profile: str
    process: bool
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    control: bool
    record: str | PathLike[str] | None
    security: SecurityProtocol
    users: Mapping[str, str] | None
    mechanisms: Iterable[Mechanism]
    acls: Iterable[AclRule] | None


class Startable(Protocol):
    """The methods that `Starting` needs of the broker that it starts."""

    aio: Any

    async def close_async(self) -> None: ...


B = TypeVar("B", bound=Startable)


class Starting(Generic[B]):
    """A broker that is about to start; await it, or use it in `async with`."""

    def __init__(self, start: Callable[[], B]) -> None:
        self._start = start
        self._started: B | None = None

    def __await__(self) -> Generator[Any, None, B]:
        return self._begin().__await__()

    async def __aenter__(self) -> B:
        self._started = await self._begin()
        return self._started

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        started = self._started
        if started is None:
            return
        try:
            if error is None:
                await started.aio.check()
        finally:
            await started.close_async()

    async def _begin(self) -> B:
        return await asyncio.to_thread(self._start)
