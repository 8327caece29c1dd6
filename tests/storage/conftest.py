"""The same tests run against the stores in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from groupd.storage.log import Store
from groupd.storage.memory import MemoryStore
from groupd.storage.open import create_store
from tests.support.postgres import PostgresServer


class Disk:
    """A place that stores come back from."""

    def __init__(self, url: str | None, path: Path) -> None:
        self._url = url
        self._path = path
        self._memory = MemoryStore() if url == "memory://" else None
        self.store = self._new()

    def _new(self) -> Store:
        return self._memory or create_store(self._url, self._path)

    async def reopen(self) -> Store:
        await self.store.close()
        self.store = self._new()
        await self.store.start()
        return self.store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    url = {"memory": "memory://"}.get(request.param)
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.emptied_database())
    disk = Disk(url, tmp_path / "data")
    await disk.store.start()
    yield disk
    await disk.store.close()


@pytest.fixture
def store(disk: Disk) -> Store:
    return disk.store
