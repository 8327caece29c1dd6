"""The tail cache and the queues of arrival."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.topics import stored_batches
from groupd.coordinator.topics.appends import ArrivalOrder
from groupd.coordinator.topics.stored_batches import TailCache, within
from groupd.storage.log import StoredBatch


def batch(base, size=10, records=1):
    return StoredBatch(base, base + records - 1, 0, b"%d" % (base % 10) * size)


def test_within():
    payloads = [b"12345", b"123", b"1"]
    assert within(payloads, 9, False) == payloads
    assert within(payloads, 8, False) == payloads[:2]
    assert within(payloads, 4, False) == []
    assert within(payloads, 4, True) == payloads[:1]


def test_reads():
    cache = TailCache()
    for base in (5, 7, 9):
        cache.add("a", batch(base, records=2))
    assert cache.read("a", 4, 100, True) is None
    assert cache.read("a", 11, 100, True) is None
    assert cache.read("b", 5, 100, True) is None
    assert cache.read("a", 8, 100, True) == [b"7" * 10, b"9" * 10]
    assert cache.read("a", 5, 10, True) == [b"5" * 10]


def test_a_gap_empties_the_log():
    cache = TailCache()
    cache.add("a", batch(0))
    cache.add("a", batch(5))
    assert cache.read("a", 0, 100, True) is None
    assert cache.read("a", 5, 100, True) == [b"5" * 10]
    assert cache.size == 10


def test_bounds(monkeypatch):
    monkeypatch.setattr(stored_batches, "LOG_BYTES_MAX", 25)
    monkeypatch.setattr(stored_batches, "TOTAL_BYTES_MAX", 40)
    cache = TailCache()
    for base in range(3):
        cache.add("a", batch(base))
    assert (cache.size, cache.read("a", 0, 100, True)) == (20, None)
    cache.add("b", batch(0))
    cache.add("b", batch(1))
    assert cache.size == 40
    cache.add("c", batch(0, 30))
    assert cache.read("a", 1, 100, True) is None
    assert cache.read("b", 0, 100, True) is None
    assert cache.read("c", 0, 100, True) == [b"0" * 30]
    cache.drop("c")
    assert cache.size == 0


@pytest.fixture
def order():
    return ArrivalOrder()


async def test_turns_come_in_order(order):
    first, second, other = order.enter("ab"), order.enter("b"), order.enter("c")
    waiting = asyncio.create_task(second.wait())
    await other.wait()
    await asyncio.sleep(0)
    assert not waiting.done()
    assert order.busy("b")
    first.leave()
    await waiting
    second.leave()
    other.leave()
    assert not order.busy("abc")


async def test_who_gives_up_does_not_let_others_pass(order):
    first, second, third = order.enter("a"), order.enter("a"), order.enter("a")
    second.leave()
    waiting = asyncio.create_task(third.wait())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    first.leave()
    await waiting
    third.leave()
    assert not order.busy("a")
