"""The clock of an embedded broker: order, modes, and what a frozen one still does."""

from __future__ import annotations

import asyncio

import pytest

from groupd.testing.clock import ControlledClock


async def nothing() -> None:
    await asyncio.sleep(0)


async def test_timers_fire_in_order_each_at_its_time() -> None:
    clock = ControlledClock("frozen")
    start = clock.now()
    fired: list[tuple[str, int]] = []

    def note(name: str) -> None:
        fired.append((name, clock.now().monotonic_ms - start.monotonic_ms))
        if name == "a":
            clock.call_at(start.monotonic_ms + 20, lambda: note("from a"))

    clock.call_at(start.monotonic_ms + 30, lambda: note("c"))
    clock.call_at(start.monotonic_ms + 10, lambda: note("a"))
    clock.call_at(start.monotonic_ms + 10, lambda: note("b"))
    clock.call_at(start.monotonic_ms + 41, lambda: note("too late"))
    clock.call_at(start.monotonic_ms + 5, lambda: note("cancelled")).cancel()
    assert await clock.advance(40, nothing) == 4
    assert fired == [("a", 10), ("b", 10), ("from a", 20), ("c", 30)]
    now = clock.now()
    assert now.monotonic_ms == start.monotonic_ms + 40
    assert now.wall_ms == start.wall_ms + 40


async def test_effects_are_settled_between_timers() -> None:
    clock = ControlledClock("frozen")
    start_ms = clock.now().monotonic_ms
    order: list[str] = []

    async def settle() -> None:
        await asyncio.sleep(0)
        order.append("settled")

    clock.call_at(start_ms + 1, lambda: order.append("one"))
    clock.call_at(start_ms + 2, lambda: order.append("two"))
    await clock.advance(5, settle)
    assert order == ["settled", "one", "settled", "two", "settled"]


async def test_before_timer_comes_before_each_and_at_the_end() -> None:
    clock = ControlledClock("frozen")
    start_ms = clock.now().monotonic_ms
    seen: list[int] = []
    clock.before_timer = lambda at_ms: seen.append(at_ms - start_ms)
    clock.call_at(start_ms + 7, lambda: None)
    await clock.advance(10, nothing)
    assert seen == [7, 10]


async def test_frozen_time_fires_only_what_is_due_already() -> None:
    clock = ControlledClock("frozen")
    now_ms = clock.now().monotonic_ms
    due, later = asyncio.Event(), asyncio.Event()
    clock.call_at(now_ms + 1, later.set)
    clock.call_at(now_ms, due.set)
    await asyncio.wait_for(due.wait(), 5)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not later.is_set()
    assert clock.now().monotonic_ms == now_ms


async def test_accelerated_time_comes_by_itself() -> None:
    clock = ControlledClock(100_000)
    hour = asyncio.Event()
    clock.call_at(clock.now().monotonic_ms + 3_600_000, hour.set)
    await asyncio.wait_for(hour.wait(), 5)
    clock.close()


async def test_a_frozen_clock_that_runs_again_arms_its_timers() -> None:
    clock = ControlledClock("frozen")
    done = asyncio.Event()
    clock.call_at(clock.now().monotonic_ms + 5, done.set)
    clock.set_mode("real")
    await asyncio.wait_for(done.wait(), 5)
    clock.close()


async def test_advance_moves_real_time_too_and_calls_do_not_mix() -> None:
    clock = ControlledClock("real")
    start_ms = clock.now().monotonic_ms
    fired: list[int] = []
    clock.call_at(start_ms + 60_000, lambda: fired.append(1))
    clock.call_at(start_ms + 100_000, lambda: fired.append(2))
    await asyncio.gather(clock.advance(60_000, nothing), clock.advance(60_000, nothing))
    assert fired == [1, 2]
    assert 120_000 <= clock.now().monotonic_ms - start_ms < 180_000
    clock.close()


@pytest.mark.parametrize("mode", ["slow", 0, -1.0])
def test_modes_that_there_are_not(mode: str | float) -> None:
    with pytest.raises(ValueError, match="clock"):
        ControlledClock(mode)


async def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        await ControlledClock("frozen").advance(-1, nothing)
