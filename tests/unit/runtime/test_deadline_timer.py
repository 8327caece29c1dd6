"""The timer of deadlines that something keeps."""

from __future__ import annotations

from groupd.coordinator.core.deadlines import DeadlineKey, Deadlines
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.shard_timers import DeadlineTimer
from tests.support.manual_clock import ManualClock


def test_deadlines_that_are_ended_by_one_of_them_do_not_come_any_more() -> None:
    clock, deadlines, fired = ManualClock(), Deadlines(), []
    running: list[Deadlines] = [deadlines]

    def expire(key: DeadlineKey, _: Instant) -> bool:
        fired.append(key)
        running.clear()
        return True

    timer = DeadlineTimer(clock, lambda: running[0] if running else None, expire)
    for name in ("a", "b"):
        deadlines.set(("kind", name), clock.monotonic_ms())
    timer.arm()
    clock.advance(0)
    assert fired == [("kind", "a")]
