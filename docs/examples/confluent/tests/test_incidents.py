"""What the program does when things go wrong. Time stands still unless a test moves it."""

from __future__ import annotations

import threading

import pytest

from workers import Worker, order

pytestmark = pytest.mark.groupd(topics={"orders": 6}, clock="frozen")


def test_a_crash_before_the_commit_loses_no_order(groupd, database, ledger, start_process):
    groupd.produce("orders", [order(number) for number in range(60)])
    commit = groupd.faults.add("hold", api="OffsetCommit", group="billing", count=1)
    victim = start_process()
    commit.wait(timeout=20)  # its invoices are durable, its commit is not, and dies with it
    victim.kill()
    victim.wait()
    assert groupd.committed("billing") == {}
    before = set(ledger.invoices())
    assert before
    with Worker(groupd.bootstrap_servers, database) as heir:
        groupd.wait_members("billing", 2)
        groupd.clock.advance(45_000)  # the session of the dead one ends
        for partition in range(6):
            groupd.wait_committed("billing", "orders", partition, 10)
    assert len(ledger.invoices()) == 60
    assert not before & set(heir.charged), "nobody pays twice"


def test_partitions_of_a_killed_process_move(groupd, database, start_process):
    with Worker(groupd.bootstrap_servers, database) as survivor:
        (stays,) = groupd.wait_members("billing", 1)
        victim = start_process()
        groupd.wait_stable("billing", members=2, timeout=20)
        victim.kill()
        victim.wait()
        groupd.clock.advance(45_000)
        (left,) = groupd.wait_stable("billing", members=1)["members"]
        assert (left["member_id"], left["owned"]) == (stays, {"orders": [0, 1, 2, 3, 4, 5]})
        groupd.produce("orders", [order(number) for number in range(12)])
        for partition in range(6):
            groupd.wait_committed("billing", "orders", partition, 2)
    assert len(survivor.charged) == 12


def test_no_order_is_done_twice_in_a_rebalance(groupd, database):
    """A second instance gets no partition before the first one has finished the order in hand and
    committed, and does none of its orders again."""
    groupd.produce("orders", [order(number) for number in range(60)])
    busy, go_on = threading.Event(), threading.Event()

    def charge(_) -> None:
        if len(first.charged) == 30:
            busy.set()
            assert go_on.wait(20)

    never = 3600.0  # no commit before the revocation
    with Worker(groupd.bootstrap_servers, database, charge, commit_seconds=never) as first:
        assert busy.wait(20)
        with Worker(groupd.bootstrap_servers, database, commit_seconds=never) as second:
            groupd.wait_members("billing", 2)
            with pytest.raises(AssertionError, match="not within"):
                groupd.wait_stable("billing", members=2, timeout=0.5)
            assert groupd.committed("billing") == {}
            assert not second.charged, "all partitions are still with the first"
            go_on.set()
            groupd.wait_stable("billing", members=2)
            groupd.produce("orders", [order(number) for number in range(60, 120)])
    with Worker(groupd.bootstrap_servers, database) as third:
        for partition in range(6):
            groupd.wait_committed("billing", "orders", partition, 20)
    charged = first.charged + second.charged + third.charged
    assert len(charged) == 120
    assert set(charged.values()) == {1}
    assert second.processor.repeated == third.processor.repeated == 0


def test_a_zombie_commits_nothing(groupd, database, ledger):
    """A member that hung for longer than its session still believes to have its partitions."""
    with Worker(groupd.bootstrap_servers, database) as zombie:
        (zombie_id,) = groupd.wait_members("billing", 1)
        with Worker(groupd.bootstrap_servers, database) as other:
            groupd.wait_stable("billing", members=2)
            groupd.produce("orders", [order(number) for number in range(6)])
            for partition in range(6):  # both are at work
                groupd.wait_committed("billing", "orders", partition, 1)
            incident = groupd.recipes.zombie_member("billing", zombie_id)
            groupd.wait_stable("billing", members=1)
            groupd.produce("orders", [order(number) for number in range(6, 60)])
            for partition in range(6):  # by the other one: nothing of the zombie gets through
                groupd.wait_committed("billing", "orders", partition, 10)
            incident.faults[0].wait(hits=2)  # its heartbeat and its commit
            incident.release()
            groupd.wait_stable("billing", members=2, timeout=20)
    assert zombie.processor.refused >= 1
    assert len(ledger.invoices()) == 60
    assert len(other.charged) + len(zombie.charged) >= 60


@pytest.mark.parametrize("applied", [True, False])
def test_the_coordinator_dies_in_the_middle_of_a_commit(groupd, database, ledger, applied):
    incident = groupd.recipes.coordinator_failover("billing", applied=applied)
    groupd.produce("orders", [order(number, partition=0) for number in range(10)])
    with Worker(groupd.bootstrap_servers, database) as worker:
        groupd.wait_committed("billing", "orders", 0, 10, timeout=30)
        groupd.produce("orders", [order(number, partition=0) for number in range(10, 20)])
        groupd.wait_committed("billing", "orders", 0, 20, timeout=30)
        incident.faults[0].wait()
    assert len(ledger.invoices()) == 20
    assert set(worker.charged.values()) == {1}


def test_expired_offsets_start_the_group_over(groupd, database, ledger):
    groupd.produce("orders", [order(number, partition=0) for number in range(10)])
    with Worker(groupd.bootstrap_servers, database):
        groupd.wait_committed("billing", "orders", 0, 10)
    groupd.wait_members("billing", 0)
    groupd.recipes.offset_expiry("billing")  # down for longer than offsets.retention.minutes
    assert groupd.committed("billing") == {}
    with Worker(groupd.bootstrap_servers, database) as again:
        groupd.wait_committed("billing", "orders", 0, 10)  # by auto.offset.reset, from the start
    assert len(ledger.invoices()) == 10
    assert not again.charged, "the ledger knows them"


def test_a_broker_that_is_loading_is_waited_for(groupd, database):
    groupd.produce("orders", [order(1, partition=0)])
    with Worker(groupd.bootstrap_servers, database):
        groupd.wait_stable("billing", members=1)
        loading = groupd.faults.loading("billing", count=3)
        groupd.wait_committed("billing", "orders", 0, 1, timeout=20)
        loading.wait()
