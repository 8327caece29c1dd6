"""Many deadlines that are due at once are handled some at a time."""

from __future__ import annotations

from groupd.coordinator.core.deadlines import DeadlineKey, Deadlines
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.shard_timers import EXPIRED_AT_ONCE, DeadlineTimer
from tests.support.manual_clock import ManualClock


def key(number: int, group: str = "g") -> DeadlineKey:
    return ("session", group, f"m{number:03d}")


def test_the_first_few_are_the_earliest() -> None:
    deadlines = Deadlines()
    for number in range(10):
        deadlines.set(key(number), 100 - number)
    assert deadlines.pop_due(99, 3) == [key(9), key(8), key(7)]
    assert len(deadlines) == 7
    assert deadlines.pop_due(95, 3) == [key(6), key(5)]
    assert deadlines.pop_due(99) == [key(number) for number in (4, 3, 2, 1)]
    assert deadlines.next_deadline() == 100


def test_those_of_a_group_are_sorted_and_the_others_left_out() -> None:
    deadlines = Deadlines()
    for number in (3, 1, 2):
        deadlines.set(key(number), number)
        deadlines.set(key(number, "other"), number)
    deadlines.set(("rebalance", "g", "m009"), 7)
    deadlines.cancel(key(2))
    assert [found for found in deadlines.of_group("g") if found is not None] == [
        (("rebalance", "g", "m009"), 7),
        (key(1), 1),
        (key(3), 3),
    ]


def test_one_ring_of_the_timer_handles_a_few_and_a_heartbeat_may_come_between() -> None:
    clock, deadlines = ManualClock(), Deadlines()
    rings: list[list[DeadlineKey]] = []
    now_ms = clock.monotonic_ms()

    def expire(due: DeadlineKey, now: Instant) -> bool:
        if not rings or len(rings[-1]) == EXPIRED_AT_ONCE:
            rings.append([])
        rings[-1].append(due)
        if due == key(0):
            deadlines.set(key(15), now_ms + 1000)
        return due != key(1)

    timer = DeadlineTimer(clock, lambda: deadlines, expire)
    for number in range(2 * EXPIRED_AT_ONCE):
        deadlines.set(key(number), now_ms + 5)
    timer.arm()
    assert clock.advance(5) == 2, "two rings, and others have their turn in between"
    assert [len(ring) for ring in rings] == [EXPIRED_AT_ONCE, EXPIRED_AT_ONCE - 1]
    assert key(15) not in rings[1]
    assert timer.at_ms == now_ms + 505, "what could not be handled comes again"
    clock.advance(1000)
    assert sum(key(15) in ring for ring in rings) == 1
