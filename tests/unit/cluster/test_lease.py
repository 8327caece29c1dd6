"""The lease by this node's own clocks."""

from __future__ import annotations

import pytest

from groupd.coordinator.cluster.lease import NodeLease, since_boot_ns

MS = 1_000_000


class Clocks:
    def __init__(self) -> None:
        self.elapsed_ms = 5_000
        self.wall_ms = 1_800_000_000_000

    def lease(self, lease_ms: int = 2400) -> NodeLease:
        return NodeLease(lease_ms, lambda: self.elapsed_ms * MS, lambda: self.wall_ms * MS)

    def pass_ms(self, count: int) -> None:
        self.elapsed_ms += count
        self.wall_ms += count


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_it_is_not_valid_before_the_first_renewal(clocks: Clocks) -> None:
    assert not clocks.lease().valid()


@pytest.mark.parametrize(("lease_ms", "usable_ms"), [(2400, 2160), (500, 400), (60000, 54000)])
def test_it_ends_with_a_margin_counted_from_before_the_renewal(
    clocks: Clocks, lease_ms: int, usable_ms: int
) -> None:
    lease = clocks.lease(lease_ms)
    sent = lease.now()
    clocks.pass_ms(100)  # the database's answer takes its time
    lease.renewed(sent)
    clocks.pass_ms(usable_ms - 101)
    assert lease.valid()
    clocks.pass_ms(1)
    assert not lease.valid()


def test_a_wall_clock_that_jumps_ahead_ends_it(clocks: Clocks) -> None:
    lease = clocks.lease()
    lease.renewed(lease.now())
    clocks.wall_ms += 3000
    assert not lease.valid()
    lease.renewed(lease.now())
    assert not lease.valid()  # it was sent at the same moment as the first
    clocks.pass_ms(1)
    lease.renewed(lease.now())
    assert lease.valid()


def test_a_wall_clock_that_is_set_back_does_not_make_it_longer(clocks: Clocks) -> None:
    lease = clocks.lease()
    lease.renewed(lease.now())
    clocks.wall_ms -= 1_000_000
    clocks.pass_ms(2160)
    assert not lease.valid()


def test_an_older_renewal_that_is_told_of_later_changes_nothing(clocks: Clocks) -> None:
    lease = clocks.lease()
    older = lease.now()
    clocks.pass_ms(500)
    lease.renewed(lease.now())
    lease.renewed(older)
    clocks.pass_ms(2159)
    assert lease.valid()


def test_once_ended_only_a_renewal_that_is_sent_later_counts(clocks: Clocks) -> None:
    lease = clocks.lease()
    under_way = lease.now()
    clocks.pass_ms(10)
    lease.end()
    lease.renewed(under_way)
    assert not lease.valid()
    clocks.pass_ms(1)
    lease.renewed(lease.now())
    assert lease.valid()


def test_how_long_it_was_held_without_a_gap(clocks: Clocks) -> None:
    lease = clocks.lease()
    assert lease.held_ms == 0
    for _ in range(5):
        lease.renewed(lease.now())
        clocks.pass_ms(600)
    assert (lease.held_ms, lease.age_ms) == (3000, 600)
    clocks.pass_ms(3000)
    assert lease.held_ms == 0
    lease.renewed(lease.now())
    clocks.pass_ms(50)
    assert lease.held_ms == 50


def test_the_real_clock_counts(clocks: Clocks) -> None:
    before = since_boot_ns()
    assert since_boot_ns() >= before > 0
