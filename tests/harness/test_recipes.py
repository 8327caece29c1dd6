"""Each recipe, and how confluent-kafka comes through it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from groupd.coordinator.faults.errors import HarnessError, WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, settings
from tests.support.wire_client import NoReply, WireClient

PROTOCOLS = ("consumer", "classic")


@pytest.fixture
def c(groupd: GroupCoordinator) -> Iterator[GroupCoordinator]:
    groupd.create_topic("orders", 6)
    return groupd


def fatal_error(consumer: Consumer, timeout_s: float = 20) -> KafkaError:
    """Polls until the client gives up for good, or says an error."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is not None and message.error() is not None:
            return message.error()
    raise AssertionError("no error")


def joined(c: GroupCoordinator, protocol: str, **more: str) -> Consumer:
    consumer = Consumer({**settings(c.bootstrap_servers, "billing", protocol), **more})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 20
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.05)
    assert consumer.assignment()
    return consumer


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_zombie_member(c: GroupCoordinator, protocol: str) -> None:
    c.clock.freeze()
    with Member(c.bootstrap_servers, "billing", protocol) as zombie:
        zombie.wait(owned=6)
        (zombie_id,) = c.wait_members("billing", 1)
        with Member(c.bootstrap_servers, "billing", protocol) as other:
            other.wait(owned=3)
            zombie.wait(owned=3)
            c.wait_stable("billing", members=2)
            incident = c.recipes.zombie_member("billing", zombie_id)
            assert incident.result["members"] == [zombie_id]
            other.wait(owned=6)
            assert len(zombie.owned) == 3, "it does not know yet"
            incident.faults[0].wait()
            assert incident.release() >= 1
            other.wait(owned=3, timeout_s=20)
            zombie.wait(owned=3, timeout_s=20)
            fenced = [e["member_id"] for e in c.events("billing") if e["event"] == "member-fenced"]
            assert fenced == [zombie_id]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_slow_rebalance(c: GroupCoordinator, protocol: str) -> None:
    c.clock.freeze()
    incident = c.recipes.slow_rebalance("billing", ms=10_000)
    with Member(c.bootstrap_servers, "billing", protocol) as member:
        incident.faults[0].wait()
        assert member.owned == set()
        for hits in range(2, 8):
            c.clock.advance(10_000)
            try:
                incident.faults[0].wait(hits=hits, timeout=3)
            except WaitTimeout:
                break  # it has joined; the classic protocol's Heartbeat is not slow
        incident.remove()
        member.wait(owned=6)


def test_slow_rebalance_until_released(c: GroupCoordinator) -> None:
    incident = c.recipes.slow_rebalance("billing")
    with Member(c.bootstrap_servers, "billing") as member:
        incident.faults[0].wait()
        assert incident.release() == 1
        member.wait(owned=6)


@pytest.mark.parametrize("applied", [True, False])
def test_coordinator_failover_in_the_middle_of_a_commit(c: GroupCoordinator, applied: bool) -> None:
    """Asked step by step: librdkafka takes most of a minute over its reconnects."""
    incident = c.recipes.coordinator_failover("billing", applied=applied, outage=1)
    with WireClient(c.host, c.port) as client, pytest.raises(NoReply):
        commit(client, 1)
    c.settle()
    assert c.committed("billing") == ({("orders", 0): 1} if applied else {})
    with WireClient(c.host, c.port) as client:
        assert [coordinator_error(client) for _ in range(2)] == [15, 0]
        assert [commit(client, 2) for _ in range(2)] == [16, 0]
    assert c.committed("billing") == {("orders", 0): 2}
    assert [fault.hits for fault in incident.faults] == [1, 1, 1]


def commit(client: WireClient, offset: int) -> int:
    """The error of a commit without a group member."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    topic = {"name": "orders", "partitions": [{**partition, "committed_metadata": ""}]}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    reply = client.call("OffsetCommit", 8, group_id="billing", topics=[topic], **fields)
    return int(reply["topics"][0]["partitions"][0]["error_code"])


def coordinator_error(client: WireClient) -> int:
    reply = client.call("FindCoordinator", 3, key="billing", key_type=0)
    return int(reply["error_code"])


def test_offset_expiry_starts_the_consumer_over(c: GroupCoordinator) -> None:
    c.produce("orders", [{"value": b"old", "partition": 0}, {"value": b"new", "partition": 0}])
    c.commit("billing", {("orders", 0): 1})
    incident = c.recipes.offset_expiry("billing")
    assert incident.result["expired"] == [("orders", 0)]
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=6, values=2)
        assert member.values == [b"old", b"new"], "it reads what it had done already"
        with pytest.raises(HarnessError, match="has members"):
            c.recipes.offset_expiry("billing")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_static_member_conflict_is_fatal_to_the_first_process(
    c: GroupCoordinator, protocol: str
) -> None:
    consumer = joined(c, protocol, **{"group.instance.id": "node-1"})
    c.wait_stable("billing", members=1)
    incident = c.recipes.static_member_conflict("billing", "node-1")
    error = fatal_error(consumer)
    assert error.code() == KafkaError._FATAL
    assert "FENCED_INSTANCE_ID" in str(error) or "instance" in str(error).lower()
    old, impostor = incident.result["members"]
    assert c.wait_members("billing", 1) == [impostor]
    assert old != impostor
    consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_unknown_member_storm(c: GroupCoordinator, protocol: str) -> None:
    with (
        Member(c.bootstrap_servers, "billing", protocol) as one,
        Member(c.bootstrap_servers, "billing", protocol) as two,
    ):
        one.wait(owned=3)
        two.wait(owned=3)
        members = c.wait_stable("billing", members=2)["members"]
        before = c.rebalances("billing")
        incident = c.recipes.unknown_member_storm("billing")
        assert incident.result["members"] == sorted(member["member_id"] for member in members)
        c.wait_rebalances("billing", before + 1)
        c.wait_stable("billing", members=2, timeout=20)
        one.wait(owned=3, timeout_s=20)
        two.wait(owned=3, timeout_s=20)


def test_nobody_to_hit(c: GroupCoordinator) -> None:
    for call in (
        lambda: c.recipes.zombie_member("nobody"),
        lambda: c.recipes.offset_expiry("nobody"),
        lambda: c.recipes.static_member_conflict("nobody", "i"),
        lambda: c.recipes.unknown_member_storm("nobody"),
    ):
        with pytest.raises(HarnessError, match="no group nobody"):
            call()
    with pytest.raises(HarnessError, match="no error of Kafka's"):
        c.recipes.fatal_heartbeat_error("billing", "NOT_AN_ERROR")


def test_a_commit_of_the_zombie_is_refused(c: GroupCoordinator) -> None:
    c.clock.freeze()
    c.produce("orders", [{"value": b"x", "partition": 0}])
    consumer = joined(c, "consumer")
    c.wait_stable("billing", members=1)
    incident = c.recipes.zombie_member("billing")
    c.commit("billing", {("orders", 0): 0})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=True)
    incident.release()
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert c.committed("billing") == {("orders", 0): 0}
    consumer.close()
