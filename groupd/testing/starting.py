"""A broker that is about to start, for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

if TYPE_CHECKING:
    from groupd.testing.harness import GroupCoordinator

__tracebackhide__ = True
"""pytest: a failure ends in the line of the test, not in here."""


class StartOptions(TypedDict, total=False):
    """What `GroupCoordinator.start` takes beside topics and config."""

    clock: str | float
    profile: str
    process: bool
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    control: bool
    record: str | PathLike[str] | None


class GroupCoordinatorFactory(Protocol):
    """The fixture `groupd_factory`: `GroupCoordinator.start`, with an end at that of the test."""

    def __call__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        **options: Unpack[StartOptions],
    ) -> GroupCoordinator: ...


class Starting:
    """A broker that is about to start; await it, or use it in `async with`."""

    def __init__(self, start: Callable[[], GroupCoordinator]) -> None:
        self._start = start
        self._started: GroupCoordinator | None = None

    def __await__(self) -> Generator[Any, None, GroupCoordinator]:
        return self._begin().__await__()

    async def __aenter__(self) -> GroupCoordinator:
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

    async def _begin(self) -> GroupCoordinator:
        return await asyncio.to_thread(self._start)
