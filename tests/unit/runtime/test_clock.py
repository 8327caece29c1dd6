"""Timers of the manual clock fire in order; those of the real one are never early."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import Alarm, SystemClock
from tests.support.manual_clock import ManualClock


def test_timers_fire_in_the_order_of_their_times_each_at_its_own() -> None:
    clock = ManualClock(monotonic_ms=0, wall_ms=100)
    seen: list[tuple[str, Instant]] = []
    for name, at_ms in (("late", 30), ("early", 10), ("never", 51), ("early too", 10)):
        clock.call_at(at_ms, lambda name=name: seen.append((name, clock.now())))
    assert clock.advance(50) == 3
    assert seen == [
        ("early", Instant(10, 110)),
        ("early too", Instant(10, 110)),
        ("late", Instant(30, 130)),
    ]
    assert clock.now() == Instant(50, 150)
    assert clock.next_timer_ms() == 51


def test_a_timer_set_by_a_timer_fires_on_the_same_way() -> None:
    clock = ManualClock(monotonic_ms=0)
    seen: list[int] = []

    def tick() -> None:
        seen.append(clock.now().monotonic_ms)
        clock.call_at(clock.now().monotonic_ms + 10, tick)

    clock.call_at(10, tick)
    clock.advance(35)
    assert seen == [10, 20, 30]


def test_a_cancelled_timer_does_not_fire_even_if_cancelled_on_the_way() -> None:
    clock = ManualClock(monotonic_ms=0)
    seen: list[str] = []
    second = clock.call_at(20, lambda: seen.append("second"))
    clock.call_at(10, second.cancel)
    assert clock.advance(30) == 1
    assert seen == []
    assert clock.next_timer_ms() is None


def test_a_timer_in_the_past_fires_with_the_next_advance() -> None:
    clock = ManualClock(monotonic_ms=1000)
    seen: list[int] = []
    clock.call_at(5, lambda: seen.append(clock.now().monotonic_ms))
    assert seen == []
    clock.advance(0)
    assert seen == [1000]


def test_the_wall_clock_may_jump_and_time_does_not_run_backwards() -> None:
    clock = ManualClock(monotonic_ms=0, wall_ms=1000)
    clock.set_wall(5)
    clock.advance(10)
    assert clock.now() == Instant(10, 15)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


async def test_real_timers_are_never_early() -> None:
    clock = SystemClock()
    fired = asyncio.Event()
    due_ms = clock.now().monotonic_ms + 5
    clock.call_at(due_ms, fired.set)
    await fired.wait()
    assert clock.now().monotonic_ms >= due_ms


async def test_a_real_timer_in_the_past_fires_soon_and_can_be_cancelled() -> None:
    clock = SystemClock()
    fired, cancelled = asyncio.Event(), asyncio.Event()
    clock.call_at(0, cancelled.set).cancel()
    clock.call_at(0, fired.set)
    await fired.wait()
    assert not cancelled.is_set()


def test_an_alarm_moves_to_an_earlier_time_only() -> None:
    clock = ManualClock(monotonic_ms=0)
    rung: list[int] = []
    alarm = Alarm(clock, lambda: rung.append(clock.now().monotonic_ms))
    alarm.at_latest(30)
    alarm.at_latest(50)
    alarm.at_latest(20)
    clock.advance(100)
    assert rung == [20]
    assert alarm.at_ms is None


def test_an_alarm_may_be_set_again_while_it_rings_and_cancelled() -> None:
    clock = ManualClock(monotonic_ms=0)
    rung: list[int] = []

    def ring() -> None:
        rung.append(clock.now().monotonic_ms)
        alarm.at_latest(clock.now().monotonic_ms + 10)

    alarm = Alarm(clock, ring)
    alarm.at_latest(10)
    clock.advance(25)
    alarm.cancel()
    clock.advance(100)
    assert rung == [10, 20]
