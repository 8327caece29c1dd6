"""Names that are not there: an error that says what there is, never an empty answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from groupd.coordinator.faults.errors import HarnessError, NotFound
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, settings


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topics({"orders": 2, "payments": 1})
    groupd.commit("billing", {("orders", 0): 0})
    return groupd


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.lag("biling"),
        lambda c: c.committed("biling"),
        lambda c: c.describe("biling"),
        lambda c: c.events("biling"),
        lambda c: c.rebalances("biling"),
        lambda c: c.wait_members("biling", 0),
        lambda c: c.wait_released("biling", "orders", 0),
        lambda c: c.recipes.zombie_member("biling"),
        lambda c: c.recipes.offset_expiry("biling"),
        lambda c: c.recipes.unknown_member_storm("biling"),
        lambda c: c.recipes.static_member_conflict("biling", "one"),
    ],
)
def test_a_group_that_never_was(c: GroupCoordinator, ask: Callable[[GroupCoordinator], object]):
    with pytest.raises(NotFound) as caught:
        ask(c)
    assert str(caught.value) == "no group biling; did you mean billing?; groups: billing"


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.records("order"),
        lambda c: c.produce("order", ["x"]),
        lambda c: c.delete_topic("order"),
        lambda c: c.wait_released("billing", "order", 0),
    ],
    ids=["records", "produce", "delete", "released"],
)
def test_a_topic_that_is_not_there(c: GroupCoordinator, ask: Callable[[GroupCoordinator], object]):
    with pytest.raises(NotFound) as caught:
        ask(c)
    assert str(caught.value) == "no topic order; did you mean orders?; topics: orders, payments"


def test_a_partition_that_is_not_there(c: GroupCoordinator) -> None:
    with pytest.raises(HarnessError, match="topic orders has no partition 2: it has 2, from 0"):
        c.records("orders", 2)


def test_a_group_that_was_there_is_known(c: GroupCoordinator) -> None:
    with Member(c.bootstrap_servers, "gone", "classic") as member:
        member.wait(owned=2)
    c.clock.advance(8 * 24 * 3_600_000)
    assert c.committed("gone") == {}
    assert c.rebalances("gone") >= 1
    assert c.events("gone")[-1]["event"] == "group-deleted"
    with pytest.raises(NotFound, match="no group gone"):
        c.describe("gone")
    with pytest.raises(HarnessError, match="group gone has no lag: it has committed nothing"):
        c.lag("gone")


def test_lag_of_a_group_that_has_not_committed_is_that_of_its_topics(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b", "c"])
    with Member(c.bootstrap_servers, "new") as member:
        member.wait(owned=2)
        assert c.lag("new") == {("orders", 0): 2, ("orders", 1): 1}


def test_lag_of_a_group_with_a_regular_expression(c: GroupCoordinator) -> None:
    c.produce("payments", ["a"])
    consumer = Consumer(settings(c.bootstrap_servers, "new", "consumer"))
    consumer.subscribe(["^pay.*"])
    consumer.poll(10)
    assert c.lag("new") == {("payments", 0): 1}
    consumer.close()
