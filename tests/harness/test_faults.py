"""Each fault action, and how confluent-kafka reacts to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from groupd.coordinator.faults.errors import HarnessError, NotFound, WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, settings

PROTOCOLS = ("consumer", "classic")


@pytest.fixture
def c(groupd: GroupCoordinator) -> Iterator[GroupCoordinator]:
    groupd.create_topic("orders", 6)
    return groupd


def reader(c: GroupCoordinator, **more: str | int | bool) -> Consumer:
    return Consumer({**settings(c.bootstrap_servers, "billing", "consumer"), **more})


def committed(consumer: Consumer, timeout_s: float = 10) -> int:
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=timeout_s)
    if found.error is not None:
        raise KafkaException(found.error)
    return int(found.offset)


def refused(consumer: Consumer, partition: int = 0, offset: int = 1) -> KafkaError:
    """The error of a commit."""
    place = [TopicPartition("orders", partition, offset)]
    with pytest.raises(KafkaException) as caught:
        consumer.commit(offsets=place, asynchronous=False)
    error = caught.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def test_error_is_what_the_client_is_told(c: GroupCoordinator) -> None:
    consumer = reader(c)
    fault = c.faults.add(
        "error", api="OffsetCommit", group="billing", code="INVALID_COMMIT_OFFSET_SIZE"
    )
    assert refused(consumer).code() == KafkaError.INVALID_COMMIT_OFFSET_SIZE
    assert c.committed("billing") == {}
    assert fault.hits == 1
    fault.remove()
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert c.committed("billing") == {("orders", 0): 1}
    consumer.close()


def test_an_applied_error_has_moved_the_offset_all_the_same(c: GroupCoordinator) -> None:
    consumer = reader(c)
    with c.fault("error", api=8, code="UNKNOWN_SERVER_ERROR", applied=True, count=1) as fault:
        assert refused(consumer).code() == KafkaError.UNKNOWN
        assert c.committed("billing") == {("orders", 0): 1}
        assert fault.hits == 1
    consumer.close()


def test_loading_is_waited_out_by_reads_and_told_to_commits(c: GroupCoordinator) -> None:
    consumer = reader(c)
    c.commit("billing", {("orders", 0): 5})
    with c.faults.loading("billing", count=2) as fault:
        assert committed(consumer) == 5
        assert fault.hits == 2
    with c.faults.loading("billing"):
        assert refused(consumer).code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    assert c.committed("billing") == {("orders", 0): 5}
    consumer.close()


def test_a_delayed_reply_comes_when_the_clock_has_moved(c: GroupCoordinator) -> None:
    c.clock.freeze()
    consumer = reader(c)
    c.commit("billing", {("orders", 0): 7})
    with c.fault("delay", api="OffsetFetch", ms=60_000, count=1) as fault:
        with pytest.raises(KafkaException) as caught:
            committed(consumer, timeout_s=0.5)
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
        assert fault.hits == 1
        assert c.clock.advance(60_000) >= 1
        assert committed(consumer) == 7
    consumer.close()


def test_a_dropped_reply_is_a_timeout_and_the_commit_is_made(c: GroupCoordinator) -> None:
    consumer = reader(c, **{"socket.timeout.ms": 500})
    assert committed(consumer) < 0
    with c.fault("drop", api="OffsetCommit", count=1) as fault:
        began = time.monotonic()
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        assert time.monotonic() - began >= 0.5, "it was not retried after a timeout"
        assert fault.hits == 1
    assert c.committed("billing") == {("orders", 0): 3}
    consumer.close()


def test_a_dropped_request_has_no_effect(c: GroupCoordinator) -> None:
    consumer = reader(c, **{"socket.timeout.ms": 500})
    with c.fault("drop", api="OffsetCommit", applied=False) as fault:
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=True)
        fault.wait(hits=2)  # the client asks again
        assert c.committed("billing") == {}
    c.wait_committed("billing", "orders", 0, 3)
    consumer.close()


@pytest.mark.parametrize("applied", [False, True])
def test_a_broken_connection_is_mended_by_the_client(c: GroupCoordinator, applied: bool) -> None:
    consumer = reader(c)
    assert committed(consumer) < 0
    with c.fault("close", api="OffsetCommit", count=1, applied=applied) as fault:
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=True)
        fault.wait()
        if applied:
            assert c.committed("billing") == {("orders", 0): 3}
        c.wait_committed("billing", "orders", 0, 3)
        assert committed(consumer) == 3
    consumer.close()


def test_a_reply_that_comes_twice_does_no_harm(c: GroupCoordinator) -> None:
    with c.fault("twice", api="heartbeat") as fault, Member(c.bootstrap_servers, "billing") as one:
        one.wait(owned=6)
        fault.wait(hits=5)
        c.produce("orders", [b"x"])
        one.wait(owned=6, values=1)
        assert len(c.wait_stable("billing", members=1)["members"]) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_held_until_released(c: GroupCoordinator, protocol: str) -> None:
    fault = c.faults.add("hold", api=["ConsumerGroupHeartbeat", "JoinGroup"], group="billing")
    with Member(c.bootstrap_servers, "billing", protocol) as member:
        fault.wait()
        assert fault.held == 1
        assert c.groups() == []
        assert member.owned == set()
        assert fault.release() == 1
        member.wait(owned=6)


def test_a_held_reply_is_of_what_was_done(c: GroupCoordinator) -> None:
    consumer = reader(c)
    fault = c.faults.add("hold", api="OffsetCommit", applied=True)
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=True)
    assert c.wait_committed("billing", "orders", 0, 3) == 3
    fault.wait()
    assert fault.release() == 1
    consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_coordinator_moves_and_comes_back(c: GroupCoordinator, protocol: str) -> None:
    with Member(c.bootstrap_servers, "billing", protocol) as member:
        c.produce("orders", [b"x"])
        member.wait(owned=6, values=1)
        move = c.faults.move_coordinator("billing", count=4)
        gone, nobody = move.faults
        gone.wait(hits=4)
        nobody.wait(hits=1)
        move.remove()
        member.commit()
        c.wait_stable("billing", members=1)
        assert len(member.owned) == 6


def commit_once_found(consumer: Consumer, offset: TopicPartition) -> None:
    """librdkafka waits only once for a coordinator that it is still connecting to, and then gives
    the commit up with _WAIT_COORD."""
    for _ in range(20):
        try:
            consumer.commit(offsets=[offset], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._WAIT_COORD:
                raise
        else:
            return
    raise AssertionError("librdkafka does not find the coordinator")


def test_find_coordinator_names_another_broker(c: GroupCoordinator, groupd_factory: object) -> None:
    assert callable(groupd_factory)
    other = groupd_factory(topics={"orders": 6}, config={"node.id": 7})
    with c.faults.move_coordinator("billing", to=(7, other.host, other.port)) as move:
        consumer = reader(c)
        commit_once_found(consumer, TopicPartition("orders", 0, 9))
        assert move.hits >= 1
        assert other.committed("billing") == {("orders", 0): 9}
        assert c.committed("billing") == {}
        consumer.close()


@pytest.mark.parametrize("applied", [False, True])
def test_a_failed_append_is_a_commit_made_again(c: GroupCoordinator, applied: bool) -> None:
    consumer = reader(c)
    assert committed(consumer) < 0
    c.faults.fail_appends(applied=applied)
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    assert c.committed("billing") == {("orders", 0): 3}
    assert committed(consumer) == 3
    consumer.close()


def test_a_stuck_log_answers_when_it_is_free_again(c: GroupCoordinator) -> None:
    producer = Producer({"bootstrap.servers": c.bootstrap_servers})
    producer.list_topics(timeout=10)
    c.faults.hold_appends()
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(0.5) == 1
    assert c.records("orders") == []
    c.faults.release_appends()
    assert producer.flush(10) == 0
    assert [record.value for record in c.records("orders")] == [b"x"]


def test_matching_by_member_client_and_transaction(c: GroupCoordinator) -> None:
    mine = c.faults.add("error", api="InitProducerId", transactional_id="tx-*", code=53)
    other = c.faults.add("error", client_id="somebody-else", code=53)
    consumer = reader(c, **{"client.id": "me", "group.instance.id": "i1"})
    instance = c.faults.add("twice", api="heartbeat", member="i1")
    client = c.faults.add("twice", client_id="me")
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.05)
    producer = Producer({"bootstrap.servers": c.bootstrap_servers, "transactional.id": "tx-1"})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(10)
    assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert mine.hits >= 1
    assert instance.hits >= 1
    assert client.hits >= 1
    assert other.hits == 0
    consumer.close()


def test_skip_count_and_seed_choose_the_same_requests_every_time(c: GroupCoordinator) -> None:
    consumer = reader(c)
    assert committed(consumer) < 0
    fault = {"api": "OffsetCommit", "code": "INVALID_COMMIT_OFFSET_SIZE"}

    def outcomes(**more: object) -> list[bool]:
        with c.fault("error", **fault, **more):
            found = []
            for offset in range(1, 9):
                place = [TopicPartition("orders", 0, offset)]
                try:
                    consumer.commit(offsets=place, asynchronous=False)
                    found.append(True)
                except KafkaException:
                    found.append(False)
            return found

    assert outcomes(skip=2, count=3) == [True, True, False, False, False, True, True, True]
    first = outcomes(probability=0.5, seed=3)
    assert first == outcomes(probability=0.5, seed=3)
    assert set(first) == {True, False}
    consumer.close()


def test_a_member_whose_heartbeats_are_lost_is_fenced(c: GroupCoordinator) -> None:
    c.clock.freeze()
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=6)
        c.wait_stable("billing", members=1)
        c.clock.advance(45_000)
        assert len(c.wait_members("billing", 1)) == 1
        with c.fault("hold", api="heartbeat") as fault:
            fault.wait()
            c.clock.advance(45_000)
            assert c.wait_members("billing", 0) == []
        c.wait_stable("billing", members=1)
        member.wait(owned=6)


@pytest.mark.parametrize(
    ("action", "given", "says"),
    [
        ("explode", {}, "must be one of"),
        ("error", {}, "needs code"),
        ("error", {"code": "NOT_AN_ERROR"}, "no error of Kafka's"),
        ("delay", {"ms": -1}, "ms must be"),
        ("drop", {"ms": 5}, "is for 'delay'"),
        ("drop", {"api": "Commit"}, "neither an API"),
        ("drop", {"api": []}, "must name an API"),
        ("drop", {"colour": "red"}, "has no colour"),
        ("drop", {"probability": 2}, "probability must be a number <= 1"),
        ("drop", {"count": 0}, "whole number"),
        ("drop", {"group": 5}, "must be text"),
        ("drop", {"after": 99}, "no fault 99"),
        ("twice", {"applied": False}, "no reply"),
        ("redirect", {"node": (1, "h")}, r"length 3, not 2 \(\[id, host, port"),
    ],
)
def test_what_cannot_be_a_fault(
    c: GroupCoordinator, action: str, given: dict[str, object], says: str
) -> None:
    with pytest.raises(HarnessError, match=says):
        c.faults.add(action, **given)
    assert c._call("faults") == []


def test_there_are_only_so_many(c: GroupCoordinator) -> None:
    for _ in range(1000):
        c.faults.add("drop", group="nobody")
    with pytest.raises(HarnessError, match="1000 faults already"):
        c.faults.add("drop")
    c.faults.clear()
    c.faults.add("drop", group="nobody")


def test_faults_of_a_broker_in_another_process_and_of_coroutines() -> None:
    with GroupCoordinator.start(topics={"orders": 1}, process=True) as c:
        consumer = reader(c)
        with c.fault("error", api="OffsetCommit", code="INVALID_COMMIT_OFFSET_SIZE") as fault:
            refused(consumer)
            assert asyncio.run(_hits(c, fault.number)) == 1
        with pytest.raises(NotFound, match="no fault"):
            assert fault.hits
        consumer.close()


async def _hits(c: GroupCoordinator, number: int) -> int:
    return int((await c.aio.fault(number))["hits"])


def test_a_fault_that_is_not_met_says_so(c: GroupCoordinator) -> None:
    fault = c.faults.add("drop", group="nobody")
    with pytest.raises(WaitTimeout, match=r"2 hits of fault .*nobody"):
        fault.wait(hits=2, timeout=0.05)


def test_what_is_held_dies_with_its_connection(c: GroupCoordinator) -> None:
    fault = c.faults.add("hold", api="OffsetFetch")
    consumer = reader(c, **{"socket.timeout.ms": 300})
    for hits in (1, 2):  # each on a connection of its own, which the client gives up
        with pytest.raises(KafkaException):
            committed(consumer)
        assert fault.wait(hits) == hits
        assert fault.held <= 1
    fault.release()
    assert committed(consumer) < 0
    consumer.close()
