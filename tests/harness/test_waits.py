"""Waiting for a group to catch up, and what a wait says that ran out of time."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from groupd.coordinator.faults.errors import WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topic("orders", 2)
    return groupd


def test_a_group_that_catches_up(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b", "c"])
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=2, values=3)
        assert c.wait_lag("billing", 3) == {("orders", 0): 2, ("orders", 1): 1}
        commit = threading.Timer(0.1, member.commit)
        commit.start()
        assert c.wait_lag("billing") == {("orders", 0): 0, ("orders", 1): 0}
        commit.join()


def test_records_that_are_deleted_are_no_lag(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b", "c"])
    c.commit("billing", {("orders", 0): 0})
    admin = AdminClient({"bootstrap.servers": c.bootstrap_servers})
    gone = [TopicPartition("orders", 0, 2), TopicPartition("orders", 1, 1)]
    late = threading.Timer(0.1, lambda: [f.result() for f in admin.delete_records(gone).values()])
    late.start()
    assert c.wait_lag("billing") == {("orders", 0): 0, ("orders", 1): 0}
    late.join()


def test_a_group_that_is_yet_to_come(c: GroupCoordinator) -> None:
    late = threading.Timer(0.1, c.commit, ["billing", {("orders", 0): 0}])
    late.start()
    assert c.wait_lag("billing", 0) == {("orders", 0): 0, ("orders", 1): 0}
    late.join()


def test_a_topic_that_is_yet_to_come(c: GroupCoordinator) -> None:
    def create() -> None:
        c.create_topic("invoices")
        c.produce("invoices", ["a"])

    late = threading.Timer(0.1, create)
    late.start()
    assert [record.value for record in c.wait_records("invoices", 1)] == [b"a"]
    late.join()


def test_records_of_one_partition(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b", "c"])
    assert [r.value for r in c.wait_records("orders", 2, partition=0)] == [b"a", b"c"]
    with pytest.raises(WaitTimeout, match=r"2 records in orders-1; it has 1 .* the last ones:"):
        c.wait_records("orders", 2, partition=1, timeout=0.05)


def test_a_timeout_names_the_group_that_was_probably_meant(c: GroupCoordinator) -> None:
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=2)
        for wait in (
            lambda: c.wait_stable("biling", timeout=0.05),
            lambda: c.wait_committed("biling", "orders", 0, 1, timeout=0.05),
            lambda: c.wait_lag("biling", timeout=0.05),
        ):
            with pytest.raises(WaitTimeout) as caught:
                wait()
            said = str(caught.value)
            assert "there is no group biling; did you mean billing?" in said
            assert "\ngroups: billing\ntopics: orders\nclients:\n" in said
            assert "(confluent-kafka-python" in said
            assert "last events" not in said  # nothing happened in a group that never was


def test_a_timeout_says_how_far_behind_a_group_is(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b", "c"])
    c.commit("billing", {("orders", 0): 1})
    with pytest.raises(WaitTimeout) as caught:
        c.wait_lag("billing", 1, timeout=0.05)
    said = str(caught.value)
    assert "at most 1 behind; its lag is 2 (orders-0: 1, orders-1: 1)" in said
    assert said.endswith("groups: billing\ntopics: orders\nclients: none")


def test_a_timeout_about_a_topic_that_is_not_there(c: GroupCoordinator) -> None:
    with pytest.raises(WaitTimeout, match="there is no such topic; did you mean orders"):
        c.wait_records("order", 1, timeout=0.05)


def test_a_fault_that_is_not_hit_says_who_is_there(c: GroupCoordinator) -> None:
    with pytest.raises(WaitTimeout, match="clients: none"):
        c.fault("drop", api="OffsetCommit").wait(timeout=0.05)


async def test_coroutines(c: GroupCoordinator) -> None:
    await c.aio.commit("billing", {("orders", 0): 0})
    assert await c.aio.wait_lag("billing", 0, timeout=1) == {("orders", 0): 0, ("orders", 1): 0}
