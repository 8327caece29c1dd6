"""Share groups with confluent-kafka: what the harness shows, its waits, and time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from groupd.coordinator.faults.errors import HarnessError, NotFound, RequestRefused, WaitTimeout
from groupd.testing.harness import GroupCoordinator
from groupd.testing.share_view import ShareView

PROGRAM = """
import sys
from confluent_kafka import ShareConsumer
consumer = ShareConsumer({"bootstrap.servers": sys.argv[1], "group.id": "workers"})
consumer.subscribe(["orders"])
consumer.poll(30)
sys.stdin.read()
"""


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topics({"orders": 1, "bills": 2})
    return groupd


def worker(c: GroupCoordinator, *topics: str) -> Any:
    return c.share_consumer(
        "workers", *(topics or ("orders",)), share_acknowledgement_mode="explicit"
    )


def test_what_became_of_each_record(c: GroupCoordinator) -> None:
    c.clock.freeze()
    c.produce("orders", ["a", "b", "c", "d"])
    consumer, share = worker(c), c.share("workers")
    messages = consumer.poll(10)
    (member,) = c.wait_members("workers", 1)
    assert [one["state"] for one in share.wait_acquired(4)] == ["acquired"] * 4
    assert share.records()[0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "state": "acquired",
        "delivery_count": 1,
        "member_id": member,
        "lock_left_ms": 30_000,
        "why": None,
    }
    assert (share.start_offsets(), share.lag()) == ({("orders", 0): 0}, {("orders", 0): 4})
    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
    for message, kind in zip(messages, (*kinds, AcknowledgeType.ACCEPT), strict=True):
        consumer.acknowledge(message, kind)
    assert set(consumer.commit_sync().values()) == {None}
    ends = [share.record("orders", 0, offset) for offset in range(4)]
    assert [(one["state"], one["why"], one["member_id"]) for one in ends] == [
        ("acknowledged", "accepted", member),
        ("available", "released", member),
        ("archived", "rejected", member),
        ("acknowledged", "accepted", member),
    ]
    assert [one["offset"] for one in share.records()] == [1, 2, 3], "0 is behind the start offset"
    assert [one["offset"] for one in share.wait_acknowledged(2, "orders", 0)] == [0, 3]
    assert [one["offset"] for one in share.wait_archived(1)] == [2]
    assert share.wait_released(1) == 1
    assert (share.start_offsets(), share.lag()) == ({("orders", 0): 1}, {("orders", 0): 1})


def test_records_of_one_topic_and_partition(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    c.produce("bills", [{"value": "b", "partition": 0}, {"value": "c", "partition": 1}])
    consumer, share = c.share_consumer("workers", "orders", "bills"), c.share("workers")
    values: set[bytes] = set()
    while len(values) < 3:
        values |= {message.value() for message in consumer.poll(10)}
    consumer.commit_sync()
    assert len(share.wait_acknowledged(3)) == 3
    assert [one["partition"] for one in share.wait_acknowledged(2, "bills")] == [0, 1]
    assert [one["offset"] for one in share.wait_acknowledged(1, "bills", 1)] == [0]
    assert share.records("orders") == []
    with pytest.raises(HarnessError, match=r"topic bills has no partition 2"):
        share.records("bills", 2)
    with pytest.raises(NotFound, match=r"record orders-0@7: no member of workers has had it"):
        share.record("orders", 0, 7)


def test_a_timeout_explains_where_a_group_begins(c: GroupCoordinator) -> None:
    c.produce("orders", ["too early"])
    settings = c.client_config("confluent-kafka", protocol="share") | {"group.id": "workers"}
    consumer = ShareConsumer(settings)
    consumer.subscribe(["orders"])
    c.wait_stable("workers", members=1)
    assert list(consumer.poll(0.3)) == []
    with pytest.raises(WaitTimeout) as caught:
        c.share("workers").wait_acquired(1, "orders", timeout=0.1)
    text = str(caught.value)
    assert "group workers 1 records acquired in orders; there are 0" in text
    assert "share group in state Stable" in text
    assert "orders-0: begins at 1, the log ends at 1; nobody has had any of its records" in text
    assert 'groupd.share("workers", from_="earliest")' in text
    consumer.close()


def test_a_wait_for_a_topic_that_does_not_exist(c: GroupCoordinator) -> None:
    share = c.share("workers")
    for wait in (share.wait_acknowledged, share.wait_released):
        with pytest.raises(NotFound, match="no topic order; did you mean orders"):
            wait(1, "order", timeout=60)


def test_a_wait_makes_no_rows_before_there_are_enough(
    c: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShareView, "in_state", lambda *_: pytest.fail("rows were made"))
    for wait in (c.share("workers").wait_acquired, c.share("workers").wait_archived):
        with pytest.raises(WaitTimeout):
            wait(1, timeout=0)


def test_a_timeout_shows_what_is_held(c: GroupCoordinator) -> None:
    c.clock.freeze()
    c.produce("orders", ["a", "b"])
    consumer = worker(c)
    assert len(consumer.poll(10)) == 2
    (member,) = c.wait_members("workers", 1)
    for wait in (c.share("workers").wait_released, c.share("workers").wait_archived):
        with pytest.raises(WaitTimeout) as caught:
            wait(1, timeout=0)
        held = f"0 to 1: acquired, delivery count 1, held by {member} for 30000 ms"
        assert held in str(caught.value)
    assert f"    {held}" in c.report()


def test_the_test_says_where_a_group_begins(c: GroupCoordinator) -> None:
    c.share("workers", from_="latest")
    c.produce("orders", ["too early"])
    consumer = c.share_consumer("workers", "orders")
    c.wait_stable("workers", members=1)
    assert list(consumer.poll(0.3)) == []
    c.produce("orders", ["coffee"])
    assert [message.value() for message in consumer.poll(10)] == [b"coffee"]
    with pytest.raises(RequestRefused, match="INVALID_CONFIG: configs of group workers"):
        c.share("workers", from_="the start")


def test_locks_follow_the_clock(c: GroupCoordinator) -> None:
    c.clock.freeze()
    c.produce("orders", ["a"])
    consumer, share = worker(c), c.share("workers")
    (message,) = consumer.poll(10)
    c.clock.advance(29_999)
    assert share.wait_acquired(1)[0]["lock_left_ms"] == 1
    c.clock.advance(1)
    record = share.record("orders", 0, 0)
    assert (record["state"], record["why"]) == ("available", "expired")
    consumer.acknowledge(message)
    (error,) = consumer.commit_sync().values()
    assert error.args[0].name() == "INVALID_RECORD_STATE"
    assert [one.delivery_count() for one in consumer.poll(10)] == [2]


def test_members_are_alive_while_they_are_connected(c: GroupCoordinator) -> None:
    c.clock.freeze()
    consumer = c.share_consumer("workers", "orders")
    members = c.wait_members("workers", 1)
    c.clock.advance(600_000)
    assert c.wait_members("workers", 1) == members
    c.clock.advance(45_000, keep_connected=False)
    assert "member-fenced" in [event["event"] for event in c.events("workers")]
    consumer.close()


def test_a_worker_dies_with_locks(c: GroupCoordinator) -> None:
    c.clock.freeze()
    share = c.share("workers", from_="earliest")
    c.produce("orders", ["a", "b"])
    dying = [sys.executable, "-c", PROGRAM, c.bootstrap_servers]
    with subprocess.Popen(dying, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        share.wait_acquired(2, timeout=30)
        process.kill()
    assert share.wait_released(2) == 2, "at once: its connection is gone"
    consumer = c.share_consumer("workers", "orders")
    assert [one.delivery_count() for one in consumer.poll(10)] == [2, 2]


def test_a_poison_record_is_given_up(c: GroupCoordinator) -> None:
    c.create_topic("dlq.workers", config={"errors.deadletterqueue.group.enable": "true"})
    share = c.share("workers")
    share.configure(
        {"share.delivery.count.limit": "2", "errors.deadletterqueue.topic.name": "dlq.workers"}
    )
    c.produce("orders", ["poison"])
    consumer = worker(c)
    for _ in range(2):
        (message,) = consumer.poll(10)
        consumer.acknowledge(message, AcknowledgeType.RELEASE)
        consumer.commit_sync()
    (record,) = share.wait_archived(1)
    assert (record["why"], record["delivery_count"]) == ("delivery limit", 2)
    (letter,) = c.wait_records("dlq.workers", 1)
    assert dict(letter.headers)["__dlq.errors.offset"] == b"0"


def test_what_was_accepted_stays_so_after_a_restart(c: GroupCoordinator) -> None:
    c.produce("orders", ["a", "b"])
    consumer, share = worker(c), c.share("workers")
    first, _ = consumer.poll(10)
    consumer.acknowledge(first)
    consumer.commit_sync()
    c.restart()
    states = [share.record("orders", 0, offset)["state"] for offset in (0, 1)]
    assert states == ["acknowledged", "available"]
    (again,) = c.share_consumer("workers", "orders").poll(10)
    assert again.offset() == 1


def test_a_broker_without_memory_knows_nothing(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    (_,) = worker(c).poll(10)
    c.close_clients()
    c.restart(lose_memory=True)
    c.create_topic("orders")
    c.produce("orders", ["b"])
    (message,) = worker(c).poll(10)
    assert (message.value(), message.delivery_count()) == (b"b", 1)


@pytest.mark.asyncio
async def test_waits_in_a_coroutine(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    consumer = c.share_consumer("workers", "orders")
    polling = asyncio.create_task(asyncio.to_thread(consumer.poll, 10))
    (record,) = await c.aio.wait_share_acquired("workers", 1)
    assert record["state"] == "acquired"
    await polling
    with pytest.raises(HarnessError, match=r"await c\.aio\.wait_share_acquired"):
        c.share("workers").wait_acquired(1)


@pytest.mark.groupd(process=True)
def test_a_broker_in_another_process(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])
    consumer, share = c.share_consumer("workers", "orders"), c.share("workers")
    (_,) = consumer.poll(10)
    consumer.commit_sync()
    assert [one["why"] for one in share.wait_acknowledged(1)] == ["accepted"]
    assert share.lag() == {("orders", 0): 0}


@pytest.mark.parametrize(
    "ask",
    [
        lambda share: share.records(),
        lambda share: share.record("orders", 0, 0),
        lambda share: share.lag(),
        lambda share: share.start_offsets(),
    ],
)
def test_groups_that_are_no_share_groups(c: GroupCoordinator, ask: Callable[[Any], object]) -> None:
    with pytest.raises(NotFound, match="no group workers"):
        ask(c.share("workers"))
    c.commit("billing", {("orders", 0): 0})
    with pytest.raises(HarnessError, match="billing is a classic group, not a share group"):
        ask(c.share("billing"))
