"""The harness with confluent-kafka: what every function does, and how the client reacts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from groupd.coordinator.faults.errors import HarnessError, RequestRefused, WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, MemberProcess, settings

PROTOCOLS = ("consumer", "classic")
SESSION_MS = 45_000


@pytest.fixture
def c(groupd: GroupCoordinator) -> Iterator[GroupCoordinator]:
    groupd.create_topic("orders", 6)
    return groupd


def test_seeding_consuming_and_reading_back(c: GroupCoordinator) -> None:
    seeded = c.produce("orders", [b"a", "b", {"value": "c", "key": "k", "partition": 5}])
    assert [(r.partition, r.offset) for r in seeded] == [(0, 0), (1, 0), (5, 0)]
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=6, values=3)
        assert sorted(member.values) == [b"a", b"b", b"c"]
        assert c.lag("billing") == {
            **dict.fromkeys(c.lag("billing"), 0),
            ("orders", 0): 1,
            ("orders", 1): 1,
            ("orders", 5): 1,
        }
        member.commit()
        assert c.wait_committed("billing", "orders", 5, 1) == 1
        assert c.committed("billing")["orders", 5] == 1
        assert set(c.lag("billing").values()) == {0}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_a_producer_are_read_back(c: GroupCoordinator, codec: str) -> None:
    producer = Producer({"bootstrap.servers": c.bootstrap_servers, "compression.type": codec})
    for number in range(50):
        producer.produce(
            "orders", value=b"v%d" % number * 20, key=b"k", headers={"h": b"x"}, partition=3
        )
    assert producer.flush(10) == 0
    found = c.records("orders", 3)
    assert [r.value for r in found] == [b"v%d" % number * 20 for number in range(50)]
    assert [r.offset for r in found] == list(range(50))
    assert {(r.key, r.headers, r.partition) for r in found} == {(b"k", (("h", b"x"),), 3)}
    assert c.records("orders") == found


def test_a_stopped_member_is_kept_or_not_as_advance_is_told(c: GroupCoordinator) -> None:
    c.clock.freeze()
    with MemberProcess(c.bootstrap_servers, "billing") as silent:
        c.wait_stable("billing", members=1)
        silent.stop()
        c.clock.advance(SESSION_MS)
        assert len(c.wait_members("billing", 1)) == 1
        c.clock.advance(SESSION_MS, keep_connected=False)
        assert c.wait_members("billing", 0) == []


def test_frozen_time_ends_no_session_and_no_long_poll(c: GroupCoordinator) -> None:
    c.clock.freeze()
    before = c.clock.now_ms
    consumer = Consumer({**settings(c.bootstrap_servers, "g", "consumer"), "fetch.wait.max.ms": 50})
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.05)
    for _ in range(4):
        assert consumer.poll(0.1) is None
    c.produce("orders", [b"late"])
    message = consumer.poll(10)
    assert message is not None
    assert message.value() == b"late"
    consumer.close()
    assert c.clock.now_ms == before


def test_accelerated_time_ends_a_session_by_itself(c: GroupCoordinator) -> None:
    with MemberProcess(c.bootstrap_servers, "billing") as victim:
        c.wait_stable("billing", members=1)
        victim.kill()
        c.clock.run(factor=200)
        assert c.wait_members("billing", 0) == []


def test_offsets_expire_with_the_clock(c: GroupCoordinator) -> None:
    c.commit("done", {("orders", 0): 7})
    consumer = Consumer(settings(c.bootstrap_servers, "done", "consumer"))
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=10)
    assert found.offset == 7
    c.clock.advance(8 * 24 * 3_600_000)
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=10)
    assert found.offset < 0
    assert c.committed("done") == {}
    consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_waits_follow_a_growing_and_shrinking_group(c: GroupCoordinator, protocol: str) -> None:
    with Member(c.bootstrap_servers, "billing", protocol) as first:
        shown = c.wait_stable("billing", members=1)
        member_id = shown["members"][0]["member_id"]
        epoch = shown.get("group_epoch", shown.get("generation"))
        assert c.wait_epoch("billing", member_id, epoch) >= epoch
        assert c.wait_owned("billing", "orders", 5) == member_id
        first.wait(owned=6)
        rebalances = c.rebalances("billing")
        with Member(c.bootstrap_servers, "billing", protocol) as second:
            assert c.wait_rebalances("billing", rebalances + 1) > rebalances
            second.wait(owned=3)  # a cooperative classic group is stable once before that
            first.wait(owned=3)
            members = c.wait_stable("billing", members=2)["members"]
            (given,) = [m for m in members if m["member_id"] != member_id]
            for partition in given["owned"]["orders"]:
                holder = c.wait_released("billing", "orders", partition, member=member_id)
                assert holder == given["member_id"]
        assert c.wait_members("billing", 1) == [member_id]
        first.wait(owned=6)


def test_a_wait_for_release_sees_the_slow_listener(c: GroupCoordinator) -> None:
    with Member(c.bootstrap_servers, "billing") as first:
        first.wait(owned=6)
        (member_id,) = c.wait_members("billing", 1)
        with Member(c.bootstrap_servers, "billing"):
            c.wait_stable("billing", members=2)
            first.wait(owned=3)
            gone = set(range(6)) - {partition for _, partition in first.owned}
            assert member_id not in {
                c.wait_released("billing", "orders", partition, member_id) for partition in gone
            }


def test_a_timeout_says_who_is_missing_and_what_blocks(c: GroupCoordinator) -> None:
    with Member(c.bootstrap_servers, "billing") as only:
        only.wait(owned=6)
        with pytest.raises(WaitTimeout) as told:
            c.wait_stable("billing", members=3, timeout=0.2)
    text = str(told.value)
    assert "2 of 3 members are missing" in text
    assert "consumer group in state Stable" in text
    assert "owns orders-0, orders-1" in text
    assert "member-joined" in text
    with pytest.raises(WaitTimeout, match="there is no group nobody"):
        c.wait_members("nobody", 1, timeout=0.05)
    with pytest.raises(WaitTimeout, match="nothing is committed"):
        c.wait_committed("billing", "orders", 0, 1, timeout=0.05)


def test_commits_from_outside_are_for_empty_groups(c: GroupCoordinator) -> None:
    c.commit("billing", {"orders": {0: 2, 1: 3}})
    assert c.committed("billing") == {("orders", 0): 2, ("orders", 1): 3}
    c.produce("orders", [{"value": str(n), "partition": 0} for n in range(4)])
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=6, values=2)
        assert member.values == [b"2", b"3"]
        with pytest.raises(RequestRefused, match="UNKNOWN_MEMBER_ID"):
            c.commit("billing", {("orders", 0): 0})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_come_back_after_a_restart(c: GroupCoordinator, protocol: str) -> None:
    c.produce("orders", [b"one"])
    with Member(c.bootstrap_servers, "billing", protocol) as member:
        member.wait(owned=6, values=1)
        member.commit()
        address = c.bootstrap_servers
        c.restart()
        assert c.bootstrap_servers == address
        assert c.committed("billing")["orders", 0] == 1
        assert [r.value for r in c.records("orders")] == [b"one"]
        c.wait_stable("billing", members=1, timeout=20)
        c.produce("orders", [b"two"])
        member.wait(owned=6, values=2, timeout_s=20)


def test_a_classic_member_joins_anew_when_memory_is_lost(c: GroupCoordinator) -> None:
    c.commit("done", {("orders", 0): 2})
    with Member(c.bootstrap_servers, "billing", "classic") as member:
        member.wait(owned=6)
        c.restart(lose_memory=True)
        assert c.committed("done") == {}
        c.create_topic("orders", 2)
        assert c.records("orders") == []
        c.wait_stable("billing", members=1, timeout=20)
        member.wait(owned=2, timeout_s=20)


def test_lost_memory_is_fatal_to_librdkafkas_consumer_protocol(c: GroupCoordinator) -> None:
    """GROUP_ID_NOT_FOUND to a heartbeat: this client never recovers, so its program must."""
    consumer = Consumer(settings(c.bootstrap_servers, "billing", "consumer"))
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.05)
    c.restart(lose_memory=True)
    error = None
    deadline = time.monotonic() + 20
    while (error is None or error.code() != KafkaError._FATAL) and time.monotonic() < deadline:
        message = consumer.poll(0.05)
        error = message.error() if message is not None else error
    assert "group id does not exist" in str(error)
    consumer.close()


def test_topics_come_and_go(c: GroupCoordinator) -> None:
    c.create_topics({"payments": 2, "refunds": 1})
    c.delete_topic("refunds")
    assert c.topics() == {"orders": 6, "payments": 2}
    producer = Producer({"bootstrap.servers": c.bootstrap_servers})
    assert set(producer.list_topics(timeout=10).topics) >= {"orders", "payments"}
    with pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"):
        c.create_topic("orders")
    with pytest.raises(HarnessError, match="no topic refunds"):
        c.produce("refunds", [b"x"])


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_count_when_it_is_committed(
    c: GroupCoordinator, commits: bool
) -> None:
    c.produce("orders", [{"value": b"x", "partition": 0}])
    consumer = Consumer(settings(c.bootstrap_servers, "billing", "consumer"))
    consumer.subscribe(["orders"])
    while consumer.poll(0.1) is None:
        pass
    producer = Producer({"bootstrap.servers": c.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    offsets = [TopicPartition("orders", 0, 1)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 10)
    assert c.committed("billing") == {}
    if commits:
        producer.commit_transaction(10)
        assert c.wait_committed("billing", "orders", 0, 1) == 1
    else:
        producer.abort_transaction(10)
        c.settle()
        assert c.committed("billing") == {}
    consumer.close()


def test_a_fenced_member_cannot_commit(c: GroupCoordinator) -> None:
    """The zombie of every incident review: its commit is refused and moves nothing."""
    c.clock.freeze()
    c.produce("orders", [{"value": b"x", "partition": 0}])
    consumer = Consumer(settings(c.bootstrap_servers, "billing", "consumer"))
    consumer.subscribe(["orders"])
    while (message := consumer.poll(0.1)) is None:
        pass
    c.clock.advance(SESSION_MS, keep_connected=False)
    c.commit("billing", {("orders", 0): 0})
    with pytest.raises(KafkaException):
        consumer.commit(message, asynchronous=False)
    assert c.committed("billing") == {("orders", 0): 0}
    consumer.close()
