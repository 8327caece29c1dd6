"""Failed logins and wrong tokens, counted by address."""

from __future__ import annotations

from groupd.coordinator.server.recent_failures import WINDOW_S, RecentFailures
from tests.support.seconds import Seconds

MOST = 50


def test_failures_are_counted_for_a_bounded_number_of_subnets() -> None:
    """SE-91."""
    clock = Seconds()
    failures = RecentFailures(3, MOST, clock)
    for number in range(3):
        assert not failures.waits_s("2001:db8::ffff")
        failures.add(f"2001:db8::{number}")
        failures.add("::ffff:10.0.0.1")
    assert failures.waits_s("2001:db8::ffff")
    assert not failures.waits_s("2001:db8:0:1::1")
    assert failures.waits_s("10.0.0.1")
    assert not failures.waits_s("10.0.0.2")
    for number in range(2 * MOST):
        failures.add(f"10.1.0.{number}")
        failures.add("10.0.0.1")
    assert len(failures) == MOST
    assert failures.waits_s("10.0.0.1"), "others do not make it forgotten"
    clock.now += WINDOW_S
    assert not failures.waits_s("10.0.0.1")


def test_no_limit() -> None:
    failures = RecentFailures(0, MOST, Seconds())
    failures.add("10.0.0.1")
    assert not failures.waits_s("10.0.0.1")
    assert len(failures) == 0
