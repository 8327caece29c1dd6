"""The same tests run against the store in memory and the one on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.log import Store
from storage.memory import MemoryStore
from storage.open import create_store


class Disk:
    """A place that stores come back from."""

    def __init__(self, kind: str, path: Path) -> None:
        self._path = path
        self._memory = MemoryStore() if kind == "memory" else None
        self.store = self._new()

    def _new(self) -> Store:
        return self._memory or create_store(None, self._path)

    async def reopen(self) -> Store:
        await self.store.close()
        self.store = self._new()
        await self.store.start()
        return self.store


@pytest.fixture(params=["memory", "sqlite"])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    disk = Disk(request.param, tmp_path / "data")
    await disk.store.start()
    yield disk
    await disk.store.close()


@pytest.fixture
def store(disk: Disk) -> Store:
    return disk.store
