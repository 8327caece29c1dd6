"""Faults that need a client's second step, a text or another client; and whether all are tested."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka.errors import KafkaError as PyKafkaError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PyPlace

from groupd.coordinator.faults.spec import ACTIONS
from groupd.testing.handles import FaultHandle, Faults, HarnessClock, Incident, RecipeCalls
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, settings

PLACE = TopicPartition("orders", 0)
HERE = Path(__file__).parent


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topic("orders", 6)
    return groupd


@pytest.fixture
def consumer(c: GroupCoordinator) -> Iterator[Consumer]:
    made = Consumer(settings(c.bootstrap_servers, "billing", "consumer"))
    yield made
    made.close()


def commit(consumer: Consumer, offset: int) -> bool:
    """Commits; whether it was taken."""
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def test_a_fault_after_another_one_waits_for_it(c: GroupCoordinator, consumer: Consumer) -> None:
    code = "INVALID_COMMIT_OFFSET_SIZE"
    first = c.faults.add("error", api="OffsetFetch", code="UNKNOWN_SERVER_ERROR", count=1)
    second = c.faults.add("error", api="OffsetCommit", code=code, after=first)
    assert commit(consumer, 1)
    with pytest.raises(KafkaException):
        consumer.committed([PLACE], timeout=10)
    assert not commit(consumer, 2)
    assert (first.hits, second.hits) == (1, 1)
    second.remove()
    assert commit(consumer, 3)


def test_clear_lets_go_what_was_held(c: GroupCoordinator) -> None:
    held = c.faults.add("hold", api="heartbeat")
    c.faults.add("error", api="JoinGroup", code="UNKNOWN_SERVER_ERROR")
    with Member(c.bootstrap_servers, "billing") as member:
        held.wait()
        c.faults.clear()
        member.wait(owned=6)
    with Member(c.bootstrap_servers, "other", "classic") as member:
        member.wait(owned=6)


def test_remove_lets_go_what_was_held(c: GroupCoordinator) -> None:
    with (
        c.fault("hold", api="heartbeat") as held,
        Member(c.bootstrap_servers, "billing") as member,
    ):
        held.wait()
        held.remove()
        member.wait(owned=6)
        held.remove()  # a second time is nothing


def test_a_delayed_reply_is_of_what_was_done(c: GroupCoordinator, consumer: Consumer) -> None:
    c.clock.freeze()
    told: list[object] = []
    with c.fault("delay", api="OffsetCommit", ms=5_000, applied=True, count=1) as fault:
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=True)
        assert c.wait_committed("billing", "orders", 0, 3) == 3
        fault.wait()
        told.append(consumer.poll(0.2))
        c.clock.advance(5_000)
        assert commit(consumer, 4)
    assert told == [None]
    assert c.committed("billing") == {("orders", 0): 4}


def test_the_text_of_an_error_reaches_the_client(c: GroupCoordinator) -> None:
    """It does in replies that carry one; librdkafka throws that of a consumer heartbeat away."""
    admin = AdminClient({"bootstrap.servers": c.bootstrap_servers})
    with c.fault("error", api="CreateTopics", code="POLICY_VIOLATION", message="not on Fridays"):
        (outcome,) = admin.create_topics([NewTopic("more", 1)]).values()
        with pytest.raises(KafkaException, match="not on Fridays"):
            outcome.result(10)


def test_settle_returns_when_a_client_was_answered(c: GroupCoordinator, consumer: Consumer) -> None:
    assert commit(consumer, 1)
    received = c.faults.add("twice", api="OffsetCommit")
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=True)
    received.wait()
    c.settle()
    assert c.committed("billing") == {("orders", 0): 2}


async def test_a_wait_for_a_fault_in_coroutines(groupd: GroupCoordinator) -> None:
    await groupd.aio.create_topic("orders", 1)
    number = await groupd.aio.add_fault("twice", api="heartbeat")
    with Member(groupd.bootstrap_servers, "billing") as member:
        assert await groupd.aio.wait_fault(number, 3) >= 3
        member.wait(owned=1)


@pytest.mark.parametrize("applied", [True, False])
def test_kafka_python_commits_through_a_failover(c: GroupCoordinator, applied: bool) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=c.bootstrap_servers, group_id="billing", enable_auto_commit=False
    )
    place = PyPlace("orders", 0)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(1, "", -1)})
    with c.recipes.coordinator_failover("billing", applied=applied, outage=2) as incident:
        for _ in range(20):
            try:
                consumer.commit({place: OffsetAndMetadata(2, "", -1)})
                break
            except PyKafkaError:
                continue
        assert [fault.hits for fault in incident.faults] == [1, 2, 1]
    assert c.committed("billing") == {("orders", 0): 2}
    consumer.close()


def public(kind: type) -> set[str]:
    return {
        name
        for name, value in inspect.getmembers_static(kind)
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    }


WAITS = {name for name in public(GroupCoordinator) if name.startswith("wait_")}
HANDLES = set().union(*(public(kind) for kind in (Faults, FaultHandle, Incident, RecipeCalls)))


def test_every_fault_clock_and_wait_function_has_a_test_with_a_client() -> None:
    """Looks at all files here that use a client; that the test says something is for its reader."""
    texts = "".join(
        text
        for path in HERE.glob("test_*.py")
        if re.search(r"from (confluent_kafka|aiokafka|kafka) ", text := path.read_text())
    )
    functions = WAITS | HANDLES | public(HarnessClock) | {"fault", "settle", "restart"}
    assert len(functions) > 30
    assert {name for name in functions if not re.search(rf"\.{name}\b", texts)} == set()
    used = set(re.findall(r'(?:\badd|\.fault|_add)\(\s*"(\w+)"', texts))
    assert set(ACTIONS) - used == {"redirect"}, "which is faults.move_coordinator(to=...)"
