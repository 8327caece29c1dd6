"""OffsetCommit: scenarios OF-01..OF-27 as far as the offsets' side decides them; the group's
own rules are its verdict here."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.offsets.refusals import refuse_commit
from groupd.coordinator.core.types import EventKind, Operation, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import CommitPartition, OffsetCommitRequest
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from tests.unit.offsets.harness import T1_ID, T2_ID, Shard, codes, topic


def test_of_01_commit_without_group_makes_a_simple_group(shard: Shard) -> None:
    reply = shard.commit(topic(p3=CommitPartition(3, 42, 5, "m")))
    assert codes(reply) == {("t1", 3): 0}
    value = OffsetCommitValue(42, 5, "m", shard.now.wall_ms, topic_id=T1_ID)
    assert shard.outcome.records == [Record(OffsetCommitKey("g", "t1", 3), value)]
    assert shard.state.groups["g"].protocol_type == ""
    assert shard.offset(3) == 42
    (event,) = shard.outcome.events
    assert (event.kind, event.group_id) == (EventKind.OFFSETS_COMMITTED, "g")
    assert event.details == {"count": 1}


def test_a_refused_commit_makes_no_group(shard: Shard) -> None:
    shard.commit(topic(p0=CommitPartition(0, 1, -1, "x" * 4097)))
    assert shard.state.groups == {}
    assert shard.outcome.events == []


@pytest.mark.parametrize(("version", "code"), [(8, 22), (9, 69), (10, 69)])
def test_of_02_unknown_group_with_generation(shard: Shard, version: int, code: int) -> None:
    reply = shard.commit(topic("t1", T1_ID, p0=1), version=version, generation_or_epoch=0)
    assert codes(reply) == {("t1", 0): code}
    assert shard.outcome.records == []
    assert shard.state.groups == {}


def test_of_03_empty_group_id(shard: Shard) -> None:
    assert codes(shard.commit(topic(p0=1), group="")) == {("t1", 0): 0}
    assert shard.offset(group="") == 1


@pytest.mark.parametrize("name", ["OF-04-stable", "OF-10-preparing-rebalance"])
def test_of_04_of_10_accepted_commit_restarts_the_session(shard: Shard, name: str) -> None:
    group = shard.group(state="Stable")
    member = {"member_id": "m", "group_instance_id": "i", "generation_or_epoch": 3}
    assert codes(shard.commit(topic(p0=1), **member)) == {("t1", 0): 0}
    assert group.commit_checks[0]["member"] == ("m", "i", 3)
    assert group.commit_checks[0]["transactional"] is False
    assert group.session_restarts == [("m", "i", shard.now.monotonic_ms)]


VERDICTS = [
    ("OF-05", 9, ErrorCode.ILLEGAL_GENERATION),
    ("OF-06", 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ("OF-07", 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ("OF-08", 9, ErrorCode.FENCED_INSTANCE_ID),
    ("OF-09", 9, ErrorCode.REBALANCE_IN_PROGRESS),
    ("OF-11", 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ("OF-12", 8, ErrorCode.UNSUPPORTED_VERSION),
    ("OF-13", 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("OF-15", 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("OF-17", 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("OF-18", 9, ErrorCode.ILLEGAL_GENERATION),
    ("OF-19", 9, ErrorCode.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("name", "version", "code"), VERDICTS, ids=[v[0] for v in VERDICTS])
def test_group_verdict_stands_on_every_partition(
    shard: Shard, name: str, version: int, code: ErrorCode
) -> None:
    group = shard.group(commit_error=code)
    reply = shard.commit(topic(p0=1, p1=2), topic("t2", p0=3), version=version)
    assert codes(reply) == {("t1", 0): code, ("t1", 1): code, ("t2", 0): code}
    assert shard.outcome.records == shard.outcome.events == []
    assert group.commit_checks[0]["version"] == version
    assert group.session_restarts == []


def test_of_14_of_16_rule_7_sees_ids_and_skips_refused_partitions(shard: Shard) -> None:
    group = shard.group(type_name="consumer")
    reply = shard.commit(topic(p0=1, p1=CommitPartition(1, 2, -1, "x" * 5000)), version=8)
    assert codes(reply) == {("t1", 0): 0, ("t1", 1): 12}
    assert group.commit_checks[0]["checked"] == [("t1", T1_ID, 0)]


def test_of_20_share_group(shard: Shard) -> None:
    shard.group(type_name="share", commit_error=ErrorCode.GROUP_ID_NOT_FOUND)
    for version in (2, 9, 10):
        reply = shard.commit(topic("t1", T1_ID, p0=1), version=version)
        assert codes(reply) == {("t1", 0): 69}


def test_of_21_metadata_limit_counts_utf16_units(shard: Shard) -> None:
    reply = shard.commit(
        topic(
            p0=CommitPartition(0, 1, -1, "x" * 4096),
            p1=CommitPartition(1, 1, -1, "x" * 4097),
            p2=CommitPartition(2, 1, -1, "\U0001f642" * 2048),
            p3=CommitPartition(3, 1, -1, "\U0001f642" * 2048 + "x"),
            p4=CommitPartition(4, 1, -1, "я" * 4096),
            p5=CommitPartition(5, 1, -1, None),
        )
    )
    assert [code for _, code in sorted(codes(reply).items())] == [0, 12, 0, 12, 0, 0]
    assert [record.key.partition for record in shard.outcome.records] == [0, 2, 4, 5]
    assert shard.offsets.store.get("g", "t1", 5).metadata == ""
    assert shard.outcome.events[0].details == {"count": 4}


def test_of_22_unknown_topic_or_partition_by_name(shard: Shard) -> None:
    reply = shard.commit(topic("nope", p0=1), topic("t2", p0=1, p2=2), topic(p9=3))
    assert codes(reply) == {("nope", 0): 3, ("t2", 2): 3, ("t2", 0): 0, ("t1", 9): 0}
    assert [entry.name for entry in reply.topics] == ["nope", "t2", "t1"]
    assert shard.offsets.store.get("g", "t2", 0).topic_id == T2_ID


def test_of_23_unknown_or_zero_id(shard: Shard) -> None:
    reply = shard.commit(
        topic("", b"?" * 16, p0=1), topic("", p0=1), topic("", T1_ID, p0=1, p10=1), version=10
    )
    assert [
        (entry.topic_id, partition.partition, partition.error)
        for entry in reply.topics
        for partition in entry.partitions
    ] == [(b"?" * 16, 0, 100), (bytes(16), 0, 100), (T1_ID, 10, 3), (T1_ID, 0, 0)]
    assert shard.offset() == 1


def test_of_24_denied_topic_and_group(shard: Shard) -> None:
    shard.allows = lambda operation, resource, name: name != "t2"
    assert codes(shard.commit(topic(p0=1), topic("t2", p0=1))) == {("t1", 0): 0, ("t2", 0): 29}
    # Denied comes before unknown where topics go by name.
    shard.allows = lambda operation, resource, name: name != "nope"
    assert codes(shard.commit(topic("nope", p0=1))) == {("nope", 0): 29}
    asked = []

    def deny_group(operation: Operation, resource: Resource, name: str) -> bool:
        asked.append((operation, resource, name))
        return resource is not Resource.GROUP

    shard.allows = deny_group
    reply = shard.commit(topic(p0=1), topic("nope", p0=1))
    assert codes(reply) == {("t1", 0): 30, ("nope", 0): 30}
    assert asked == [(Operation.READ, Resource.GROUP, "g")]
    assert shard.outcome is None


def test_of_25_nothing_left_is_answered_without_the_shard(shard: Shard) -> None:
    assert codes(shard.commit(topic("nope", p0=1))) == {("nope", 0): 3}
    assert shard.outcome is None
    assert shard.commit().topics == ()
    assert shard.outcome is None


def test_of_26_retention_time(shard: Shard) -> None:
    shard.commit(topic(p0=1), version=3, retention_time_ms=60000)
    value = shard.outcome.records[0].value
    assert value.expire_timestamp_ms == shard.now.wall_ms + 60000
    # Version 1 of the value holds neither of these.
    assert (value.leader_epoch, value.topic_id) == (-1, bytes(16))
    shard.commit(topic(p0=1), version=3, retention_time_ms=-1)
    assert shard.outcome.records[0].value.expire_timestamp_ms == -1


def test_of_27_partition_given_twice(shard: Shard) -> None:
    twice = topic(p0=CommitPartition(0, 1), p1=CommitPartition(0, 2))
    reply = shard.commit(twice)
    assert [entry.error for entry in reply.topics[0].partitions] == [0, 0]
    assert len(shard.outcome.records) == 2
    assert shard.offset() == 2
    assert shard.offsets.store.count == 1


def test_refusal_of_a_whole_commit() -> None:
    request = OffsetCommitRequest("g", (topic(p0=1), topic("t2", p1=1)))
    reply = refuse_commit(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert codes(reply) == {("t1", 0): 14, ("t2", 1): 14}


@pytest.mark.parametrize("api", ["commit", "txn_commit"])
def test_a_topic_that_is_refused_is_in_the_reply_even_without_partitions(
    shard: Shard, api: str
) -> None:
    shard.allows = lambda operation, resource, name: name != "t"
    reply = getattr(shard, api)(topic("t"))
    assert [topic.name for topic in reply.topics] == ["t"]
