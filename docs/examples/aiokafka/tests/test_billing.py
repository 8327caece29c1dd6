"""The program on good days and on bad ones. Time stands still unless a test moves it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from workers import order, working

TOPICS = {"orders": 6, "invoices": 1, "orders-rejected": 1}
pytestmark = pytest.mark.groupd(topics=TOPICS, clock="frozen")


async def committed(groupd, each: int, timeout: float = 10) -> None:
    """Until so many orders of each partition are committed."""
    for partition in range(6):
        await groupd.aio.wait_committed("billing", "orders", partition, each, timeout=timeout)


async def invoices(groupd) -> Counter[str]:
    """How often each order was billed."""
    records = await groupd.aio.records("invoices")
    for record in records:
        assert json.loads(record.value) == {"order": record.key.decode(), "cents": 100}
    return Counter(record.key.decode() for record in records)


async def test_orders_are_billed_and_committed(groupd):
    await groupd.aio.produce("orders", [order(number) for number in range(60)])
    async with working(groupd) as worker:
        await groupd.aio.wait_lag("billing", 0)
    billed = await invoices(groupd)
    assert billed == worker.charged == Counter(f"order-{number}" for number in range(60))


async def test_a_bad_order_does_not_hold_up_the_others(groupd):
    bad = {"value": '{"id": "order-7"}', "partition": 0}
    await groupd.aio.produce("orders", [order(1, partition=0), bad, order(2, partition=0)])
    async with working(groupd):
        await groupd.aio.wait_committed("billing", "orders", 0, 3)
    assert set(await invoices(groupd)) == {"order-1", "order-2"}
    (rejected,) = await groupd.aio.records("orders-rejected")
    assert (rejected.key, rejected.value) == (b"orders-0@1", b"no positive number of cents")


async def test_a_crash_before_the_commit_loses_no_order(groupd, start_process):
    await groupd.aio.produce("orders", [order(number) for number in range(60)])
    commit = groupd.faults.add("hold", api="OffsetCommit", group="billing", count=1)
    victim = start_process()
    await groupd.aio.wait_fault(commit.number, timeout=20)  # billed; the commit dies with it
    victim.kill()
    victim.wait()
    assert await groupd.aio.committed("billing") == {}
    before = await invoices(groupd)
    assert before
    async with working(groupd):
        await groupd.aio.wait_members("billing", 2)
        await groupd.aio.advance(45_000)  # the session of the dead one ends
        await committed(groupd, 10)
    after = await invoices(groupd)
    assert len(after) == 60
    assert {one for one, times in after.items() if times == 2} == set(before)


async def test_partitions_of_a_killed_process_move(groupd, start_process):
    async with working(groupd) as survivor:
        (stays,) = await groupd.aio.wait_members("billing", 1)
        victim = start_process()
        await groupd.aio.wait_members("billing", 2, timeout=20)
        await groupd.aio.wait_stable("billing", members=2, timeout=20)
        victim.kill()
        victim.wait()
        await groupd.aio.advance(45_000)
        (left,) = (await groupd.aio.wait_stable("billing", members=1))["members"]
        assert (left["member_id"], left["owned"]) == (stays, {"orders": [0, 1, 2, 3, 4, 5]})
        await groupd.aio.produce("orders", [order(number) for number in range(12)])
        await committed(groupd, 2)
    assert len(survivor.charged) == 12


async def test_no_order_is_done_twice_in_a_rebalance(groupd):
    """Nobody gets a partition before the batch in hand is finished and committed."""
    await groupd.aio.produce("orders", [order(number) for number in range(60)])
    busy, go_on = asyncio.Event(), asyncio.Event()

    async def charge(_) -> None:
        busy.set()
        await go_on.wait()

    async with working(groupd, charge) as first:
        await asyncio.wait_for(busy.wait(), 20)
        async with working(groupd) as second:
            await groupd.aio.wait_members("billing", 2)
            with pytest.raises(AssertionError, match="not within"):
                await groupd.aio.wait_stable("billing", members=2, timeout=0.5)
            assert await groupd.aio.committed("billing") == {}
            assert not second.charged, "all partitions are still with the first"
            go_on.set()
            await groupd.aio.wait_stable("billing", members=2)
            await groupd.aio.produce("orders", [order(number) for number in range(60, 120)])
            await committed(groupd, 20)
    charged = first.charged + second.charged
    assert first.charged
    assert second.charged
    assert len(charged) == 120
    assert set(charged.values()) == {1}


async def test_a_zombie_commits_nothing(groupd):
    """A member that hung for longer than its session still believes to have its partitions."""
    async with working(groupd) as zombie:
        (zombie_id,) = await groupd.aio.wait_members("billing", 1)
        async with working(groupd):
            await groupd.aio.wait_stable("billing", members=2)
            await groupd.aio.produce("orders", [order(number) for number in range(6)])
            await committed(groupd, 1)  # both are at work
            incident = await groupd.aio.zombie_member("billing", zombie_id)
            await groupd.aio.wait_stable("billing", members=1)
            await groupd.aio.produce("orders", [order(number) for number in range(6, 60)])
            await committed(groupd, 10)  # by the other one: nothing of the zombie gets through
            (fault,) = incident["faults"]
            await groupd.aio.wait_fault(fault, 2)  # its heartbeat and its commit
            await groupd.aio.release_fault(fault)
            await groupd.aio.wait_stable("billing", members=2, timeout=20)
    assert zombie.processor.refused >= 1
    assert len(await invoices(groupd)) == 60


@pytest.mark.parametrize("applied", [True, False])
async def test_the_coordinator_dies_in_the_middle_of_a_commit(groupd, applied):
    incident = groupd.recipes.coordinator_failover("billing", applied=applied)
    await groupd.aio.produce("orders", [order(number) for number in range(60)])
    async with working(groupd):
        await committed(groupd, 10, timeout=30)
        await groupd.aio.produce("orders", [order(number) for number in range(60, 120)])
        await committed(groupd, 20, timeout=30)
    assert [fault.hits for fault in incident.faults] == [1, 3, 1]
    assert len(await invoices(groupd)) == 120


async def test_expired_offsets_start_the_group_over(groupd):
    await groupd.aio.produce("orders", [order(number) for number in range(60)])
    async with working(groupd):
        await committed(groupd, 10)
    await groupd.aio.wait_members("billing", 0)
    groupd.recipes.offset_expiry("billing")  # down for longer than offsets.retention.minutes
    assert await groupd.aio.committed("billing") == {}
    async with working(groupd):
        await committed(groupd, 10)  # by auto_offset_reset, from the start
    assert set((await invoices(groupd)).values()) == {2}, "with the same keys and contents"
