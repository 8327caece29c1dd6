"""Faults and incidents of share groups, and how confluent-kafka comes through them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from groupd.coordinator.faults.errors import HarnessError, NotFound
from groupd.testing.harness import GroupCoordinator


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topics({"orders": 1, "bills": 1})
    return groupd


def worker(c: GroupCoordinator, group: str = "workers", topic: str = "orders") -> Any:
    return c.share_consumer(group, topic, share_acknowledgement_mode="explicit")


def accept(consumer: Any, messages: Any) -> KafkaError | None:
    """Accepts records of one partition. Returns its error."""
    for message in messages:
        consumer.acknowledge(message)
    (error,) = consumer.commit_sync(20).values()
    return None if error is None else error.args[0]


def test_an_acknowledgement_is_refused(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    consumer = worker(c)
    messages = consumer.poll(10)
    code = "GROUP_AUTHORIZATION_FAILED"
    with c.fault("error", api="ShareAcknowledge", group="workers", code=code) as fault:
        error = accept(consumer, messages)
        assert error is not None
        assert (error.name(), fault.hits) == (code, 1)
    assert c.share("workers").record("orders", 0, 0)["state"] == "acquired"


@pytest.mark.parametrize("applied", [True, False])
def test_the_connection_is_cut_in_an_acknowledgement(c: GroupCoordinator, applied: bool) -> None:
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    messages = consumer.poll(10)
    with c.fault("close", api="share", acknowledges=True, count=1, applied=applied) as fault:
        error = accept(consumer, messages)
        assert fault.wait(1) == 1
    assert error is not None
    assert error.code() == KafkaError._TRANSPORT
    if applied:
        share.wait_acknowledged(1)
    else:
        share.wait_released(1)
        assert [one.delivery_count() for one in consumer.poll(10)] == [2]


def test_fetches_of_one_topic_are_held(c: GroupCoordinator) -> None:
    """Also those within a session, which do not name the topic any more."""
    orders, bills = worker(c, "workers", "orders"), worker(c, "clerks", "bills")
    for consumer, topic in ((orders, "orders"), (bills, "bills")):
        c.produce(topic, ["first"])
        assert accept(consumer, consumer.poll(10)) is None
    with c.fault("hold", api="ShareFetch", topic="order*") as fault:
        for topic in ("orders", "bills"):
            c.produce(topic, ["second"])
        assert [message.value() for message in bills.poll(10)] == [b"second"]
        assert list(orders.poll(0.3)) == []
        assert (fault.wait(1), fault.held) == (1, 1)
        assert fault.release() == 1
        assert [message.value() for message in orders.poll(10)] == [b"second"]


@pytest.mark.parametrize("action", ["drop", "delay"])
def test_an_acknowledgement_without_an_answer(c: GroupCoordinator, action: str) -> None:
    c.clock.freeze()
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    (message,) = consumer.poll(10)
    options: dict[str, Any] = {"ms": 10_000} if action == "delay" else {}
    fault = c.fault(action, api="ShareAcknowledge", topic="orders", **options)
    consumer.acknowledge(message)
    consumer.commit_async()
    fault.wait(1)
    if action == "delay":
        assert share.record("orders", 0, 0)["state"] == "acquired"
        c.clock.advance(10_000)
    share.wait_acknowledged(1)


def test_what_is_not_durable_is_still_held(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    (message,) = consumer.poll(10)
    c.faults.hold_appends()
    consumer.acknowledge(message)
    consumer.commit_async()
    consumer.poll(0.1)
    assert share.record("orders", 0, 0)["state"] == "acquired"
    c.faults.release_appends()
    share.wait_acknowledged(1)


def test_heartbeats_of_members(c: GroupCoordinator) -> None:
    with c.fault("error", api="heartbeat", group="workers", code="NOT_COORDINATOR", count=1) as f:
        consumer = worker(c)
        c.produce("orders", ["a"])
        assert [message.value() for message in consumer.poll(10)] == [b"a"]
        assert f.hits == 1


def test_a_zombie_holds_its_records_until_their_locks_end(c: GroupCoordinator) -> None:
    c.clock.freeze()
    c.produce("orders", ["a"])
    zombie, share = worker(c), c.share("workers")
    messages = zombie.poll(10)
    incident = c.recipes.zombie_member("workers")
    assert share.record("orders", 0, 0)["why"] == "expired", "30 s, its session takes 45 s"
    other = worker(c)
    assert accept(other, other.poll(10)) is None
    for message in messages:
        zombie.acknowledge(message)
    zombie.commit_async()
    incident.faults[0].wait(2)
    incident.release()
    c.settle()
    assert share.record("orders", 0, 0)["delivery_count"] == 2


def test_the_coordinator_has_forgotten_its_members(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    consumer = worker(c)
    messages = consumer.poll(10)
    members = c.wait_members("workers", 1)
    assert c.recipes.unknown_member_storm("workers").result["members"] == members
    assert accept(consumer, messages) is None, "its locks and its session are not the coordinator's"
    c.produce("orders", ["b"])
    assert [message.value() for message in consumer.poll(10)] == [b"b"]


def test_slow_worker(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b"])
    consumer, share = worker(c), c.share("workers")
    messages = consumer.poll(10)
    members = c.wait_members("workers", 1)
    incident = c.recipes.slow_worker("workers")
    assert (incident.result["members"], incident.result["released"]) == (members, 2)
    assert share.wait_released(2) == 2
    error = accept(consumer, messages)
    assert error is not None
    assert error.name() == "INVALID_RECORD_STATE"
    with pytest.raises(HarnessError, match="group workers: no lock is held by any member"):
        c.recipes.slow_worker("workers")
    with pytest.raises(NotFound, match="no group worker; did you mean workers"):
        c.recipes.slow_worker("worker")


def test_share_leader_failover(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b"])
    consumer, share = worker(c), c.share("workers")
    first, second = consumer.poll(10)
    assert accept(consumer, [first]) is None
    c.recipes.share_leader_failover("workers")
    assert share.record("orders", 0, 1)["why"] == "the leader began anew"
    error = accept(consumer, [second])
    assert error is not None
    assert error.name() == "SHARE_SESSION_NOT_FOUND"
    (again,) = consumer.poll(10)
    assert (again.offset(), again.delivery_count()) == (1, 1)


def test_the_leader_dies_between_an_acknowledgement_and_its_durability(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    (message,) = consumer.poll(10)
    held = c.fault("drop", api="ShareAcknowledge")
    c.faults.hold_appends()
    consumer.acknowledge(message)
    consumer.commit_async()
    held.wait(1)
    c.recipes.share_leader_failover("workers")
    c.faults.release_appends()
    share.wait_acknowledged(1)
    c.produce("orders", ["b"])
    assert [one.value() for one in worker(c).poll(10)] == [b"b"], "the first is not delivered again"


@pytest.mark.parametrize("applied", [True, False])
def test_share_coordinator_failover(c: GroupCoordinator, applied: bool) -> None:
    c.clock.run(100)
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    messages = consumer.poll(10)
    c.recipes.share_coordinator_failover(applied=applied)
    assert accept(consumer, messages) is None
    share.wait_acknowledged(1)


def test_the_share_coordinator_is_away_for_too_long(c: GroupCoordinator) -> None:
    c.clock.run(100)
    c.share("workers").configure({"share.record.lock.duration.ms": "3600000"})
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    messages = consumer.poll(10)
    c.recipes.share_coordinator_failover(applied=False, outage=5)
    error = accept(consumer, messages)
    assert error is not None
    assert error.name() == "COORDINATOR_NOT_AVAILABLE"
    assert share.record("orders", 0, 0)["state"] == "acquired"
    with pytest.raises(HarnessError, match="outage must be from 1 to 100"):
        c.recipes.share_coordinator_failover(outage=0)
