"""Reading a store beside its owner: for tools that look at the logs of a daemon, running or not.

A reader takes no lock, migrates nothing, fences nobody and writes nothing. What it reads is what
is durable. The schema must be the one of this version, because only an owner may migrate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, inspect, select

from storage import tables
from storage.log import LogReadout, StoredBatch, StoredTopic, StoreRefused
from storage.sql_catalogue import SqlCatalogue
from storage.sql_logs import Backend, SqlLogs


class StoreReader(Protocol):
    """The reading part of `storage.log.Store`. `start` raises StoreRefused."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def log_names(self) -> list[str]:
        """Of all logs, sorted."""
        ...

    async def extent(self, name: str) -> LogReadout | None:
        """Where the log begins and ends now; None if there is none."""
        ...

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]: ...

    async def topics(self) -> list[StoredTopic]: ...

    async def cluster_id(self) -> str: ...


class SqlReader:
    """See `StoreReader`; `backend.start` must have been told to open for reading only."""

    def __init__(self, backend: Backend, where: str) -> None:
        self._backend = backend
        self._where = where
        self._logs = SqlLogs(backend)
        self._catalogue = SqlCatalogue(backend)
        self.read = self._logs.read
        self.topics = self._catalogue.topics
        self.cluster_id = self._catalogue.cluster_id

    async def start(self) -> None:
        await self._backend.start()
        try:
            await self._backend.read(self._check_schema)
        except BaseException:
            await self._backend.close()
            raise

    def _check_schema(self, connection: Connection) -> None:
        version = (
            connection.scalar(select(tables.meta.c.schema_version))
            if tables.meta.name in inspect(connection).get_table_names()
            else None
        )
        if version is None:
            raise StoreRefused(f"{self._where}: not a groupd database")
        if version > tables.SCHEMA_VERSION:
            raise StoreRefused(
                f"{self._where}: schema version {version} is newer than {tables.SCHEMA_VERSION}, "
                "the newest this groupd knows: use the newer groupd"
            )
        if version < tables.SCHEMA_VERSION:
            raise StoreRefused(
                f"{self._where}: schema version {version} is older than {tables.SCHEMA_VERSION}: "
                "start this groupd on it once, which migrates it"
            )

    async def close(self) -> None:
        await self._backend.close()

    async def log_names(self) -> list[str]:
        def work(connection: Connection) -> list[str]:
            query = select(tables.log.c.name).where(tables.log.c.name.is_not(None))
            return sorted(connection.scalars(query))

        return await self._backend.read(work)

    async def extent(self, name: str) -> LogReadout | None:
        def work(connection: Connection) -> LogReadout | None:
            query = select(tables.log.c.start_offset, tables.log.c.next_offset)
            row = connection.execute(query.where(tables.log.c.name == name)).one_or_none()
            return None if row is None else LogReadout(row.start_offset, row.next_offset)

        return await self._backend.read(work)


def sqlite_reader(path: Path) -> SqlReader:
    """A reader of the database file `path`, not started."""
    from storage.sqlite import SqliteReadBackend

    return SqlReader(SqliteReadBackend(path), str(path))
