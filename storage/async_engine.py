"""The little of `sqlalchemy.ext.asyncio` that the stores use.

That package brings SQLAlchemy's ORM along, which costs a daemon a tenth of a second of its start
and eight megabytes. What is left of it here is what it does for these calls itself: an engine of an
asyncio dialect, whose calls run in a greenlet that waits for the driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.util import greenlet_spawn

T = TypeVar("T")


class AsyncEngine:
    """`creator` gives a connection of the driver of `url`. `sync_engine`: for events."""

    def __init__(self, url: URL, creator: Callable[..., Awaitable[Any]], **options: Any) -> None:
        def connect() -> Any:
            dialect: Any = self.sync_engine.dialect
            return dialect.dbapi.connect(async_creator_fn=creator)

        self.sync_engine: Engine = create_engine(url, creator=connect, _is_async=True, **options)

    async def connect(self) -> AsyncConnection:
        return AsyncConnection(await greenlet_spawn(self.sync_engine.connect))

    async def dispose(self) -> None:
        await greenlet_spawn(self.sync_engine.dispose)


class AsyncConnection:
    def __init__(self, connection: Connection) -> None:
        self.sync_connection = connection

    @property
    def invalidated(self) -> bool:
        return self.sync_connection.invalidated

    async def run_sync(self, work: Callable[[Connection], T]) -> T:
        """`work(connection)`, where the connection's calls wait for the driver."""
        found: T = await greenlet_spawn(work, self.sync_connection)
        return found

    async def invalidate(self) -> None:
        await greenlet_spawn(self.sync_connection.invalidate)

    async def close(self) -> None:
        await greenlet_spawn(self.sync_connection.close)
