"""Failed attempts are counted by key, and by networks for those that cannot be told apart."""

from __future__ import annotations

import pytest

from groupd.coordinator.server.by_network import network_of
from groupd.coordinator.server.login_throttle import WINDOW_S, RecentFailures
from tests.support.seconds import Seconds

MOST = 50


def test_failures_are_counted_for_a_bounded_number_of_keys() -> None:
    """SE-91."""
    clock = Seconds()
    failures = RecentFailures(4, MOST, clock)
    for _ in range(4):
        assert not failures.wait_s("a")
        failures.add("a")
    assert failures.wait_s("a") == WINDOW_S / 4
    assert not failures.wait_s("b")
    for number in range(2 * MOST):
        failures.add(number)
        failures.add("a")
    assert len(failures) == MOST
    assert failures.wait_s("a"), "others do not make it forgotten"


def test_the_failures_that_are_allowed_come_back_one_by_one() -> None:
    clock = Seconds()
    failures = RecentFailures(4, MOST, clock)
    for _ in range(6):
        failures.add("a")
    assert failures.wait_s("a") == pytest.approx(3 * WINDOW_S / 4)
    clock.now += 3 * WINDOW_S / 4
    assert not failures.wait_s("a")
    failures.add("a")
    assert failures.wait_s("a") == pytest.approx(WINDOW_S / 4)
    clock.now += WINDOW_S
    for _ in range(4):
        assert not failures.wait_s("a")
        failures.add("a")


def test_no_limit() -> None:
    failures = RecentFailures(0, MOST, Seconds())
    failures.add("10.0.0.1")
    assert not failures.wait_s("10.0.0.1")
    assert len(failures) == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("/10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("/2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("/unknown", "unknown"),
    ],
)
def test_all_addresses_of_a_subnet_count_as_one(address: str, network: str) -> None:
    assert network_of(address) == network
