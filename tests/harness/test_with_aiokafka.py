"""The harness beside coroutines: aiokafka on the test's loop, the broker on its own."""

from __future__ import annotations

import asyncio
import sys

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from groupd.coordinator.faults.errors import HarnessError, WaitTimeout
from groupd.testing.harness import GroupCoordinator

VICTIM = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer

async def main():
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=sys.argv[1], group_id="billing",
        heartbeat_interval_ms=50, session_timeout_ms=10_000,
    )
    await consumer.start()
    await consumer.getone()

asyncio.run(main())
"""


def consumer_of(c: GroupCoordinator) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=c.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        session_timeout_ms=10_000,
    )


async def test_a_consumer_and_a_producer_on_our_own_loop() -> None:
    async with GroupCoordinator.start_async(topics={"orders": 2}) as c:
        async with AIOKafkaProducer(bootstrap_servers=c.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one", key=b"k", partition=1)
        (record,) = await c.aio.records("orders")
        assert (record.value, record.key, record.partition) == (b"one", b"k", 1)
        async with consumer_of(c) as consumer:
            message = await asyncio.wait_for(consumer.getone(), 10)
            assert message.value == b"one"
            shown = await c.aio.wait_stable("billing", members=1)
            assert shown["members"][0]["owned"] == {"orders": [0, 1]}
            await consumer.commit()
            assert await c.aio.wait_committed("billing", "orders", 1, 1) == 1


@pytest.mark.groupd(topics={"orders": 4}, clock="frozen")
async def test_a_killed_members_partitions_move_after_advance(groupd: GroupCoordinator) -> None:
    c = groupd
    async with consumer_of(c) as survivor:
        victim = await asyncio.create_subprocess_exec(
            sys.executable, "-c", VICTIM, c.bootstrap_servers
        )
        shown = await c.aio.wait_stable("billing", members=2)
        assert {len(m["owned"]["orders"]) for m in shown["members"]} == {2}
        victim.kill()
        await victim.wait()
        await c.aio.advance(10_000)
        while len(survivor.assignment()) < 4:
            await asyncio.sleep(0.01)
        shown = await c.aio.wait_stable("billing", members=1)
        assert shown["members"][0]["owned"] == {"orders": [0, 1, 2, 3]}


async def test_awaiting_a_start_and_closing_by_hand() -> None:
    c = await GroupCoordinator.start_async(topics={"orders": 1})
    try:
        await c.aio.produce("orders", [b"x"])
        assert [r.value for r in await c.aio.records("orders")] == [b"x"]
        with pytest.raises(WaitTimeout, match="there is no group billing"):
            await c.aio.wait_stable("billing", timeout=0.05)
    finally:
        await c.close_async()


async def test_a_blocking_wait_on_a_loop_is_refused(groupd: GroupCoordinator) -> None:
    with pytest.raises(HarnessError, match=r"await c\.aio\.wait_stable"):
        groupd.wait_stable("billing")


async def test_the_loop_goes_on_while_the_broker_starts_and_works() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with GroupCoordinator.start_async(topics={"orders": 1}) as c:
        before = turns
        with pytest.raises(WaitTimeout):
            await c.aio.wait_members("nobody", 1, timeout=0.05)
        assert turns > before + 10
    counting.cancel()
