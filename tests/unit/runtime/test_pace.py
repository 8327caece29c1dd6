"""Coroutines that work on many items stop after some of them."""

from __future__ import annotations

import asyncio
import random

from groupd.coordinator.core.slices import (
    REQUEST_ITEMS,
    SORTED_AT_ONCE,
    repeated_in_steps,
    sorted_in_steps,
)
from groupd.coordinator.runtime.long_work import LongWork


async def turns_of(work: asyncio.Task[object]) -> int:
    """How many turns of the loop `work` takes."""
    count = 0
    while not work.done():
        count += 1
        await asyncio.sleep(0)
    return count


async def test_a_few_items_take_no_turn() -> None:
    pace = LongWork().pace()
    assert [pace.due() for _ in range(REQUEST_ITEMS - 1)] == [False] * (REQUEST_ITEMS - 1)
    assert pace.due()


async def test_items_may_count_more_than_one() -> None:
    pace = LongWork().pace()
    assert not pace.due(REQUEST_ITEMS - 1)
    assert pace.due(0) is False
    assert pace.due()


async def test_after_a_stop_the_count_begins_again() -> None:
    pace = LongWork().pace()
    assert pace.due(REQUEST_ITEMS + 1)
    assert not pace.due(REQUEST_ITEMS - 1)


async def test_two_long_requests_have_their_turns_one_after_the_other() -> None:
    work, order = LongWork(), []

    async def request(name: str) -> None:
        pace = work.pace()
        for _ in range(3):
            await pace.turn()
            order.append(name)

    await asyncio.gather(request("a"), request("b"))
    assert order == ["a", "b"] * 3


async def test_one_step_of_all_long_requests_in_a_turn_of_the_loop() -> None:
    work, steps = LongWork(), []

    async def request() -> None:
        pace = work.pace()
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
    gone = asyncio.ensure_future(work.pace().turn())
    gone.cancel()
    await asyncio.wait_for(work.pace().turn(), 5)
    assert gone.cancelled()


async def test_what_is_given_more_than_once() -> None:
    pace = LongWork().pace()
    assert list(await pace.through(repeated_in_steps("abacba"))) == ["a", "b"]
    long = asyncio.ensure_future(pace.through(repeated_in_steps(range(10 * REQUEST_ITEMS))))
    assert await turns_of(long) >= 9
    assert long.result() == {}


async def test_items_are_sorted_in_turns() -> None:
    pace = LongWork().pace()
    items = list(range(5 * SORTED_AT_ONCE + 7))
    random.Random(1).shuffle(items)
    task = asyncio.ensure_future(pace.through(sorted_in_steps(items)))
    assert await turns_of(task) >= 5
    assert list(task.result()) == sorted(items)
    assert list(await pace.through(sorted_in_steps([]))) == []
    assert list(await pace.through(sorted_in_steps("cab"))) == ["a", "b", "c"]
