"""The secret behind the salts of unknown users stays."""

from __future__ import annotations

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.security.users import SALTS_KEY, SECRET_KIND, salt_secret
from groupd.storage.log import LogCorrupt, SecurityEntry
from groupd.storage.memory import MemoryStore


async def started() -> MemoryStore:
    store = MemoryStore()
    await store.start()
    return store


async def test_it_is_made_once_for_a_store() -> None:
    store = await started()
    first = await salt_secret(store, CatalogueChanges())
    assert len(first) == 32
    assert await salt_secret(store, CatalogueChanges()) == first
    assert await salt_secret(await started(), CatalogueChanges()) != first


async def test_a_damaged_one_ends_the_start() -> None:
    store = await started()
    await store.change_security([SecurityEntry(SECRET_KIND, SALTS_KEY, "not hexadecimal")])
    with pytest.raises(LogCorrupt):
        await salt_secret(store, CatalogueChanges())
