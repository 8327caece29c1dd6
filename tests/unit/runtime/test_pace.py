"""Coroutines that work on many items stop after some of them."""

from __future__ import annotations

import asyncio
import random

from groupd.coordinator.core.slices import SORTED_AT_ONCE
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.pace import STEP, Pace


async def turns_of(work: asyncio.Task[object]) -> int:
    """How many turns of the loop `work` takes."""
    count = 0
    while not work.done():
        count += 1
        await asyncio.sleep(0)
    return count


async def test_a_few_items_take_no_turn() -> None:
    pace = Pace(LongWork())
    assert [pace.due() for _ in range(STEP)] == [False] * STEP
    assert pace.due()


async def test_items_may_count_more_than_one() -> None:
    pace = Pace(LongWork())
    assert not pace.due(STEP)
    assert pace.due(0) is False
    assert pace.due()


async def test_after_a_turn_the_count_begins_again() -> None:
    pace = Pace(LongWork())
    assert pace.due(STEP + 1)
    await pace.turn()
    assert not pace.due(STEP)


async def test_two_long_requests_have_their_turns_one_after_the_other() -> None:
    work, order = LongWork(), []

    async def request(name: str) -> None:
        pace = Pace(work)
        for _ in range(3):
            await pace.turn()
            order.append(name)

    await asyncio.gather(request("a"), request("b"))
    assert order == ["a", "b"] * 3


async def test_one_step_of_all_long_requests_in_a_turn_of_the_loop() -> None:
    work, steps = LongWork(), []

    async def request() -> None:
        pace = Pace(work)
        for _ in range(5):
            await pace.turn()
            steps.append(1)

    tasks = [asyncio.ensure_future(request()) for _ in range(20)]
    most = 0
    while not all(task.done() for task in tasks):
        before = len(steps)
        await asyncio.sleep(0)
        most = max(most, len(steps) - before)
    assert len(steps) == 100
    assert most == 1


async def test_a_request_that_is_cancelled_gives_up_its_turn() -> None:
    work = LongWork()
    gone = asyncio.ensure_future(Pace(work).turn())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(Pace(work).turn(), 5)
    assert gone.cancelled()


async def test_what_is_given_more_than_once() -> None:
    pace = Pace(LongWork())
    assert list(await pace.repeated(["a", "b", "a", "c", "b", "a"])) == ["a", "b"]
    long = asyncio.ensure_future(pace.repeated(range(10 * STEP)))
    assert await turns_of(long) >= 9
    assert long.result() == {}


async def test_items_are_sorted_in_turns() -> None:
    pace = Pace(LongWork())
    items = list(range(5 * SORTED_AT_ONCE + 7))
    random.Random(1).shuffle(items)
    task = asyncio.ensure_future(pace.in_order(items))
    assert await turns_of(task) >= 5
    assert list(task.result()) == sorted(items)
    assert list(await pace.in_order([])) == []
    assert list(await pace.in_order("cab")) == ["a", "b", "c"]
