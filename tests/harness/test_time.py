"""What the clock does, as real clients feel it."""

from __future__ import annotations

import threading
import time

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer

from groupd.coordinator.faults.errors import WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, MemberProcess, settings
from tests.support.wire_client import WireClient

PROTOCOLS = ("consumer", "classic")
SESSION_MS = 45_000
PROMPT_MS = 200
ATTEMPTS = 5


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topic("orders", 6)
    return groupd


def moved_ms(c: GroupCoordinator, group: str, protocol: str) -> float:
    """The time from `advance`, which ends a killed member's session, to the other one's
    listener."""
    with Member(c.bootstrap_servers, group, protocol) as survivor:
        survivor.wait(owned=6)
        (stays,) = c.wait_members(group, 1)
        with MemberProcess(c.bootstrap_servers, group, protocol) as victim:
            survivor.wait(owned=3)
            for partition in set(range(6)) - {number for _, number in survivor.owned}:
                c.wait_released(group, "orders", partition, member=stays)
            members = {m["member_id"] for m in c.wait_stable(group, members=2)["members"]}
            victim.kill()
            began = time.monotonic()
            assert c.clock.advance(SESSION_MS) >= 1
            survivor.wait(owned=6)
            took_ms = (time.monotonic() - began) * 1000
        c.wait_stable(group, members=1)
    fenced = [e["member_id"] for e in c.events(group) if e["event"] == "member-fenced"]
    assert fenced == list(members - {stays})
    return took_ms


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_killed_members_partitions_move_right_after_advance(
    c: GroupCoordinator, protocol: str
) -> None:
    """They do at least once in a few tries: this machine may be busy. docs/testing.md has
    figures."""
    c.clock.freeze()
    took: list[float] = []
    while len(took) < ATTEMPTS and min(took, default=PROMPT_MS) >= PROMPT_MS:
        took.append(moved_ms(c, f"billing-{len(took)}", protocol))
    assert min(took) < PROMPT_MS, took


@pytest.mark.groupd(clock=200.0)
def test_a_broker_may_start_in_accelerated_time(c: GroupCoordinator) -> None:
    """A session of 45 s is over in a quarter of a second, so a client that is stopped is out."""
    with MemberProcess(c.bootstrap_servers, "billing") as victim:
        c.wait_members("billing", 1)
        victim.kill()
        assert c.wait_members("billing", 0) == []


def test_time_that_runs_again_ends_what_was_frozen(c: GroupCoordinator) -> None:
    consumer = Consumer(settings(c.bootstrap_servers, "billing", "consumer"))
    c.commit("billing", {("orders", 0): 7})
    c.clock.freeze()
    place = [TopicPartition("orders", 0)]
    with c.fault("delay", api="OffsetFetch", ms=300, count=1):
        with pytest.raises(KafkaException):
            consumer.committed(place, timeout=0.6)
        c.clock.run()
        (found,) = consumer.committed(place, timeout=10)
        assert found.offset == 7
    consumer.close()


async def test_coroutines_move_the_clock_of_their_own_consumer(groupd: GroupCoordinator) -> None:
    c = groupd
    await c.aio.create_topic("orders", 1)
    await c.aio.set_clock("frozen")
    before = await c.aio.now()
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=c.bootstrap_servers,
        group_id="billing",
        heartbeat_interval_ms=50,
        auto_offset_reset="earliest",
    ) as consumer:
        await c.aio.wait_stable("billing", members=1)
        assert await c.aio.advance(10_000) >= 1, "its session, which it has kept"
        assert await c.aio.now() == (before[0] + 10_000, before[1] + 10_000)
        (produced,) = await c.aio.produce("orders", ["x"])
        record = await consumer.getone()
        assert record.timestamp == produced.timestamp_ms == before[1] + 10_000


@pytest.mark.groupd(clock="frozen")
def test_old_records_are_gone_when_advance_returns(c: GroupCoordinator) -> None:
    day_ms = 86_400_000
    c.create_topic("week", config={"retention.ms": str(7 * day_ms)})
    for topic in ("week", "orders"):
        c.produce(topic, [{"value": "old", "partition": 0}])
    c.clock.advance(6 * day_ms)
    c.produce("week", [{"value": "young", "partition": 0}])
    assert [record.value for record in c.records("week")] == [b"old", b"young"]
    c.clock.advance(2 * day_ms)
    assert [(r.offset, r.value) for r in c.records("week")] == [(1, b"young")]
    assert len(c.records("orders", 0)) == 1, "the profile keeps what does not say otherwise"


@pytest.mark.groupd(clock="frozen")
def test_a_topic_is_compacted_when_advance_returns(c: GroupCoordinator) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "1000"}
    c.create_topic("state", config=config)
    c.produce("state", [{"key": key, "value": "1"} for key in "abc"])
    c.produce("state", [{"key": "a", "value": "2"}])
    c.clock.advance(60_000)
    left = [(r.offset, r.key, r.value) for r in c.records("state")]
    assert left == [(1, b"b", b"1"), (2, b"c", b"1"), (3, b"a", b"2")]


@pytest.mark.groupd(clock="frozen")
def test_a_topic_that_becomes_a_compacted_one_later_is_compacted_too(c: GroupCoordinator) -> None:
    c.create_topic("state", config={"segment.ms": "1000"})
    c.produce("state", [{"key": "a", "value": value} for value in "12"])
    c.clock.advance(3_600_000)
    assert len(c.records("state")) == 2
    admin = AdminClient({"bootstrap.servers": c.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "state")
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", None, incremental_operation=AlterConfigOpType.SET)
    )
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(10)
    c.produce("state", [{"key": "b", "value": "1"}])
    c.clock.advance(60_000)
    assert [(r.offset, r.key) for r in c.records("state")] == [(1, b"a"), (2, b"b")]


@pytest.mark.groupd(clock="frozen")
def test_days_in_which_nothing_happens_are_a_few_thousand_timers(c: GroupCoordinator) -> None:
    """Retention, idle producers and the offsets of one group are looked for, nothing else: with
    every period of every timer it were 176,000."""
    c.commit("billing", {("orders", 0): 0})
    assert c.clock.advance(8 * 86_400_000) < 6_000
    assert c.committed("billing") == {}, "the retention of seven days is over"


@pytest.mark.groupd(config={"group.initial.rebalance.delay.ms": 3000}, clock="frozen")
def test_the_initial_delay_is_over_when_the_clock_says_so(c: GroupCoordinator) -> None:
    with Member(c.bootstrap_servers, "billing", "classic") as member:
        c.wait_members("billing", 1)
        with pytest.raises(WaitTimeout):
            c.wait_stable("billing", members=1, timeout=0.3)
        c.clock.advance(2_999)
        assert member.owned == set()
        c.clock.advance(1)
        member.wait(owned=6)


@pytest.mark.groupd(config={"group.consumer.assignment.interval.ms": 5000}, clock="frozen")
def test_the_assignment_interval_is_over_when_the_clock_says_so(c: GroupCoordinator) -> None:
    with Member(c.bootstrap_servers, "billing") as first:
        first.wait(owned=6)
        with Member(c.bootstrap_servers, "billing") as second:
            c.wait_members("billing", 2)
            with pytest.raises(WaitTimeout):
                c.wait_released("billing", "orders", 5, timeout=0.3)
            assert second.owned == set()
            c.clock.advance(5_000)
            second.wait(owned=3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_does_not_revoke_is_fenced_after_its_rebalance_timeout(
    c: GroupCoordinator, protocol: str
) -> None:
    """Its listener hangs while it heartbeats; the other gets its partitions all the same. Of the
    classic assignors only eager ones revoke while the coordinator waits."""
    c.clock.freeze()
    eager = {"partition.assignment.strategy": "range"} if protocol == "classic" else {}
    slow = Consumer({**settings(c.bootstrap_servers, "billing", protocol), **eager})
    asked, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hang(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        asked.set()
        go_on.wait(30)

    def poll() -> None:
        while not ended.is_set():
            slow.poll(0.05)

    slow.subscribe(["orders"], on_revoke=hang)
    thread = threading.Thread(target=poll)
    thread.start()
    try:
        (slow_id,) = c.wait_stable("billing", members=1)["members"]
        with Member(c.bootstrap_servers, "billing", protocol, **eager) as other:
            assert asked.wait(10)
            c.clock.advance(299_000)
            assert other.owned == set()
            c.clock.advance(2_000)
            other.wait(owned=6)
            fenced = [e["member_id"] for e in c.events("billing") if e["event"] == "member-fenced"]
            assert fenced == [slow_id["member_id"]]
    finally:
        go_on.set()
        ended.set()
        thread.join()
        slow.close()


def test_a_transaction_ends_with_its_timeout(c: GroupCoordinator) -> None:
    c.clock.freeze()
    producer = Producer(
        {
            "bootstrap.servers": c.bootstrap_servers,
            "transactional.id": "t",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(10) == 0
    c.clock.advance(71_000)  # it is looked for every 10 s
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    reader = Consumer(
        {**settings(c.bootstrap_servers, "g", "consumer"), "isolation.level": "read_committed"}
    )
    reader.assign([TopicPartition("orders", 0, 0)])
    c.produce("orders", [{"value": b"after", "partition": 0}])
    message = None
    deadline = time.monotonic() + 10
    while message is None and time.monotonic() < deadline:
        message = reader.poll(0.1)
    assert message is not None
    assert message.value() == b"after", "what was aborted is not read"
    reader.close()


def test_kafka_python_feels_an_advance_like_the_others(c: GroupCoordinator) -> None:
    c.clock.freeze()
    survivor = KafkaConsumer(
        "orders",
        bootstrap_servers=c.bootstrap_servers,
        group_id="billing",
        heartbeat_interval_ms=50,
        session_timeout_ms=SESSION_MS,
    )
    with MemberProcess(c.bootstrap_servers, "other") as victim:
        c.wait_stable("other", members=1)
        while len(survivor.assignment()) < 6:
            survivor.poll(timeout_ms=1000)
        victim.kill()
        c.clock.advance(SESSION_MS)
        assert c.wait_members("other", 0) == []
        assert len(c.wait_members("billing", 1)) == 1, "it is connected"
        c.clock.advance(SESSION_MS, keep_connected=False)
        c.wait_members("billing", 0)
        before = c.rebalances("billing")
        deadline = time.monotonic() + 20
        while c.rebalances("billing") == before and time.monotonic() < deadline:
            survivor.poll(timeout_ms=1000)
        assert len(c.wait_stable("billing", members=1)["members"]) == 1, "it has joined anew"
    survivor.close()


@pytest.mark.groupd(clock="frozen")
def test_an_id_that_nobody_uses_holds_no_group_while_time_stands_still(
    c: GroupCoordinator,
) -> None:
    """A client that gives its join up and begins anew has been given two ids."""
    host, _, port = c.bootstrap_servers.rpartition(":")
    said = {
        "group_id": "billing",
        "session_timeout": 45_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    with WireClient(host, int(port)) as client:
        ids = [client.call("JoinGroup", 5, member_id="", **said)["member_id"] for _ in range(2)]
        reply = client.call("JoinGroup", 5, member_id=ids[1], **said)
    assert (reply["error_code"], reply["generation_id"]) == (0, 1)
    assert [member["member_id"] for member in reply["members"]] == [ids[1]]
