"""Stalls of the event loop, measured with a clock of the test's own."""

from __future__ import annotations

import gc

import pytest

from groupd.coordinator.runtime import cleaner, collector
from groupd.coordinator.runtime.cleaner import TimedThrottle
from groupd.coordinator.runtime.loop_stalls import (
    BUCKET_NS,
    BUCKETS,
    DELAY_NS,
    INTERVAL_S,
    REST_AFTER,
    REST_S,
    STALL_NS,
    LoopStalls,
)

INTERVAL_NS = int(INTERVAL_S * 1e9)
REST_NS = int(REST_S * 1e9)


class Elapsed:
    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


async def test_a_stall_is_what_a_timer_comes_too_late_and_is_forgotten_after_a_minute() -> None:
    elapsed = Elapsed()
    stalls = LoopStalls(elapsed=elapsed)
    stalls.start()
    for late_ns in (0, DELAY_NS - 1, DELAY_NS, STALL_NS - 1, STALL_NS, 3 * STALL_NS, 5):
        elapsed.ns += INTERVAL_NS + late_ns
        stalls.tick()
    assert stalls.stalls == 2
    assert stalls.delays == 4
    assert stalls.longest_ns() == 3 * STALL_NS
    elapsed.ns += BUCKETS * BUCKET_NS
    assert stalls.longest_ns() == 0
    stalls.stop()


async def test_while_nothing_comes_it_rings_less_often_and_what_comes_begins_a_turn() -> None:
    elapsed = Elapsed()
    stalls = LoopStalls(elapsed=elapsed)
    stalls.start()

    def ring_in_time(interval_ns: int, times: int) -> None:
        for _ in range(times):
            elapsed.ns += interval_ns
            stalls.tick()

    ring_in_time(INTERVAL_NS, 1 + REST_AFTER)
    assert stalls.resting
    ring_in_time(REST_NS, 3)
    assert stalls.longest_ns() == 0
    elapsed.ns += REST_NS // 2
    stalls.wake()
    assert not stalls.resting
    assert stalls.rang_ns == elapsed.ns
    elapsed.ns += INTERVAL_NS + STALL_NS
    stalls.tick()
    assert stalls.stalls == 1
    # A loop that is busy never rests.
    for _ in range(2 * REST_AFTER):
        stalls.wake()
        ring_in_time(INTERVAL_NS, 1)
    assert not stalls.resting
    stalls.stop()
    stalls.wake()


async def test_long_work_rests_in_proportion_to_what_it_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    throttle = TimedThrottle(sleep)

    def steps():  # type: ignore[no-untyped-def]
        yield
        yield
        return "done"

    monkeypatch.setattr(cleaner, "SLICE_NS", 0)
    assert await throttle.run(steps()) == "done"
    assert len(rests) == 3
    assert all(seconds > 0 for seconds in rests)
    monkeypatch.setattr(cleaner, "SLICE_NS", 10**9)
    assert await TimedThrottle(sleep).run(steps()) == "done"
    assert len(rests) == 3


def test_the_collector_pauses_until_the_last_load_has_ended() -> None:
    assert gc.isenabled()
    with collector.loading:
        with collector.loading:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector.loading:
            assert not gc.isenabled()
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()
