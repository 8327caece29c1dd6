"""The scripted faults of the store in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from groupd.storage.log import Append, LogUnavailable
from groupd.storage.memory import MemoryStore
from groupd.storage.open import create_store


def batch(base: int) -> Append:
    return Append("a", 1, base, base, 0, b"")


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(cluster_id="c")
    await store.start()
    await store.open("a")
    return store


async def offsets(store: MemoryStore) -> list[int]:
    return [found.base_offset for found in await store.read("a", 0, 100)]


async def test_lg_08_failed_append(store: MemoryStore) -> None:
    store.fail_next_append()
    with pytest.raises(LogUnavailable):
        await store.append([batch(0)])
    assert await offsets(store) == []
    await store.append([batch(0)])
    assert await offsets(store) == [0]


async def test_append_that_fails_after_it_was_applied(store: MemoryStore) -> None:
    error = LogUnavailable("connection lost")
    store.fail_next_append(error, applied=True)
    with pytest.raises(LogUnavailable) as caught:
        await store.append([batch(0)])
    assert caught.value is error
    assert await offsets(store) == [0]


async def test_an_append_to_a_certain_log_fails(store: MemoryStore) -> None:
    await store.open("share-1")
    store.fail_next_append(log="share-")
    await store.append([batch(0)])
    with pytest.raises(LogUnavailable):
        await store.append([batch(1), Append("share-1", 1, 0, 0, 0, b"")])
    assert (await offsets(store), store.append_faults) == ([0], 0)
    await store.append([Append("share-1", 1, 0, 0, 0, b"")])


async def test_faults_add_up(store: MemoryStore) -> None:
    store.fail_next_append(applied=True)
    store.fail_next_append(OSError(28, "disk full"))
    with pytest.raises(LogUnavailable):
        await store.append([batch(0)])
    with pytest.raises(OSError, match="disk full"):
        await store.append([batch(1)])
    await store.append([batch(1)])
    assert await offsets(store) == [0, 1]


async def test_failed_reads(store: MemoryStore) -> None:
    store.fail_next_read()
    store.fail_next_read(OSError())
    with pytest.raises(LogUnavailable):
        await offsets(store)
    with pytest.raises(OSError):
        await store.first_at_or_after("a", 0)
    assert await offsets(store) == []


async def test_lg_11_held_appends(store: MemoryStore) -> None:
    store.release_appends()
    store.hold_appends()
    store.hold_appends()
    first = asyncio.create_task(store.append([batch(0)]))
    second = asyncio.create_task(store.append([batch(1)]))
    await asyncio.sleep(0)
    assert store.held_appends == 2
    assert await offsets(store) == []
    store.release_appends()
    await asyncio.gather(first, second)
    assert store.held_appends == 0
    assert await offsets(store) == [0, 1]
    await store.append([batch(2)])


async def test_cancelled_while_held(store: MemoryStore) -> None:
    store.hold_appends()
    append = asyncio.create_task(store.append([batch(0)]))
    await asyncio.sleep(0)
    append.cancel()
    await asyncio.gather(append, return_exceptions=True)
    store.release_appends()
    assert store.held_appends == 0
    assert await offsets(store) == []


async def test_given_cluster_id(store: MemoryStore) -> None:
    assert await store.cluster_id() == "c"


def test_memory_does_not_load_sqlalchemy() -> None:
    program = (
        "import sys; from groupd.storage.open import create_store; create_store('memory://', '.');"
        "sys.exit('sqlalchemy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_memory_store_is_its_own() -> None:
    first = create_store("memory://", ".")
    assert isinstance(first, MemoryStore)
    assert create_store("memory://", ".") is not first
