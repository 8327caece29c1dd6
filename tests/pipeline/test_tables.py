"""`commits` and `offsets`, rule by rule, over one log that holds a group for each."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.job import Inputs
from groupd.pipeline.jobs import commits, offsets
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
)
from tests.pipeline.entries import entries_of, inputs_of, rows_of
from tests.unit.history.harness import RETENTION_MINUTES, START_MS, T_ID, LoggedShard

pytestmark = pytest.mark.timeout(300)

Rows = list[dict[str, Any]]
MEMBER: dict[str, Any] = {"member_id": "m1", "generation_or_epoch": 1}
T_TEXT = "74747474-7474-7474-7474-747474747474"
OTHER_TEXT = "11111111-1111-1111-1111-111111111111"


def consumer_member(group: str, member: str, epoch: int, *partitions: int) -> list[Record]:
    described = ConsumerGroupMemberMetadataValue(
        f"i-{member}", None, f"client-{member}", "/h", ("t",), None
    )
    owned = OwnedTopic(T_ID, partitions, (epoch,) * len(partitions))
    return [
        Record(ConsumerGroupMemberMetadataKey(group, member), described),
        Record(ConsumerGroupMetadataKey(group), ConsumerGroupMetadataValue(epoch)),
        Record(
            ConsumerGroupCurrentMemberKey(group, member),
            ConsumerGroupCurrentMemberValue(epoch, epoch - 1, 0, (owned,)),
        ),
    ]


def everything() -> LoggedShard:
    log = LoggedShard()
    _members(log)
    _transactions(log)
    _removals(log)
    return log


def _members(log: LoggedShard) -> None:
    log.members("classic", 1, m1=(0,), m2=(1,))
    log.commit("classic", 0, 5, **MEMBER)
    log.commit("classic", 0, 9, **MEMBER)
    log.commit("classic", 0, 9, **MEMBER)
    log.commit("classic", 2, 4, **MEMBER)  # nobody holds partition 2
    log.members("classic", 2)
    log.commit("classic", 0, 2)
    log.members("classic", 3, m1=(0,))
    log.commit("classic", 0, 1, member_id="m1", generation_or_epoch=3)
    log.commit("simple", 0, 7)
    log.commit("simple", 0, 3)
    log.write(consumer_member("consumer", "a", 4, 0, 1))
    log.commit("consumer", 0, 5, member_id="a", generation_or_epoch=4)
    log.write(consumer_member("consumer", "a", 5, 0))
    log.write(consumer_member("consumer", "b", 6, 1))
    log.commit("consumer", 1, 8, member_id="b", generation_or_epoch=6)


def _transactions(log: LoggedShard) -> None:
    log.commit("txn", 0, 1)
    log.txn_commit("txn", 0, 10, 1)
    log.txn_commit("txn", 0, 11, 1)  # replaces it: a partition has one pending offset
    log.marker(1, commit=True)
    log.txn_commit("txn", 0, 99, 1)
    log.marker(1, commit=False)
    log.txn_commit("txn", 1, 77, 1)
    log.txn_commit("late", 0, 8, 2)
    log.commit("late", 0, 5)
    log.marker(2, commit=True)
    log.txn_commit("two", 0, 20, 3)
    log.txn_commit("two", 0, 30, 4)
    log.marker(4, commit=True)
    log.marker(3, commit=True)
    log.commit("buried", 0, 5)
    log.txn_commit("buried", 0, 8, 5)
    log.delete("buried", 0)
    log.marker(5, commit=True)
    log.commit("waiting", 0, 5)
    log.txn_commit("waiting", 0, 8, 6)


def _removals(log: LoggedShard) -> None:
    log.commit("deleted", 0, 5)
    log.commit("deleted", 1, 5)
    log.delete("deleted", 0)
    log.commit("deleted", 0, 6)
    log.commit("gone", 0, 7)
    log.delete_group("gone")
    log.commit("left", 0, 7)
    log.write([Record(GroupMetadataKey("left"))])  # as if offsets had been forgotten
    key = OffsetCommitKey("own", "t", 0)
    log.write([Record(key, OffsetCommitValue(1, -1, "", log.now_ms, log.now_ms + 9000))])
    log.now_ms += 9000
    log.write([Record(key)])
    log.commit("old", 0, 1)
    log.now_ms += RETENTION_MINUTES * 60_000
    log.write([Record(OffsetCommitKey("old", "t", 0))])


@pytest.fixture(scope="module")
def inputs(spark: SparkSession) -> Inputs:
    return inputs_of(spark, entries_of(spark, {0: everything().batches}))


@pytest.fixture(scope="module")
def history(inputs: Inputs) -> Rows:
    return rows_of(commits.JOB, inputs, retention_minutes=RETENTION_MINUTES)


@pytest.fixture(scope="module")
def latest(inputs: Inputs) -> Rows:
    return rows_of(offsets.JOB, inputs)


def moves(history: Rows, group: str, *names: str) -> list[tuple[Any, ...]]:
    names = names or ("kind", "previous_offset", "offset", "jump", "actor", "member")
    found = sorted(
        (row for row in history if row["group"] == group), key=lambda row: row["log_offset"]
    )
    return [tuple(row[name] for name in names) for row in found]


def test_members_an_operator_and_members_again(history: Rows) -> None:
    assert moves(history, "classic") == [
        ("first", None, 5, None, "owner", "m1"),
        ("forward", 5, 9, 4, "owner", "m1"),
        ("same", 9, 9, 0, "owner", "m1"),
        ("first", None, 4, None, "unknown", None),
        ("reset", 9, 2, -7, "admin/simple", None),
        ("back", 2, 1, -1, "owner", "m1"),
    ]
    assert moves(history, "classic", "client_id", "client_host", "instance", "epoch") == [
        *[("client-m1", "/127.0.0.1", None, 1)] * 3,
        (None, None, None, 1),
        (None, None, None, None),
        ("client-m1", "/127.0.0.1", None, 3),
    ]


def test_of_a_group_that_never_had_members_nothing_is_a_reset(history: Rows) -> None:
    assert moves(history, "simple", "kind", "actor") == [
        ("first", "admin/simple"),
        ("back", "admin/simple"),
    ]


def test_owners_of_a_consumer_group_have_instance_and_epoch(history: Rows) -> None:
    names = ("partition", "member", "instance", "client_id", "epoch", "topic_id")
    assert moves(history, "consumer", *names) == [
        (0, "a", "i-a", "client-a", 4, T_TEXT),
        (1, "b", "i-b", "client-b", 6, T_TEXT),
    ]


def test_transactions_count_from_their_marker(history: Rows) -> None:
    names = ("partition", "offset", "outcome", "kind", "previous_offset", "producer_id")
    rows = moves(history, "txn", *names)
    assert rows == [
        (0, 1, "committed", "first", None, None),
        (0, 10, "committed", None, None, 1),
        (0, 11, "committed", "forward", 1, 1),
        (0, 99, "aborted", None, None, 1),
        (1, 77, "open", None, None, 1),
    ]
    places = moves(history, "txn", "log_offset", "effective_offset", "time", "effective_time")
    own, first, second, aborted, undecided = places
    assert own[0] == own[1]
    assert own[2] == own[3]
    assert second[1] == first[1] == second[0] + 1
    assert second[3] > second[2]
    assert aborted[1] is aborted[3] is undecided[1] is undecided[3] is None


def test_of51_a_later_plain_commit_wins_over_the_transaction(history: Rows, latest: Rows) -> None:
    names = ("offset", "outcome", "effective", "kind")
    assert moves(history, "late", *names) == [
        (8, "committed", False, None),
        (5, "committed", True, "first"),
    ]
    assert moves(latest, "late", "offset") == [(5,)]


def test_of_two_transactions_the_one_that_wrote_later_wins(history: Rows, latest: Rows) -> None:
    assert moves(history, "two", "offset", "effective", "kind") == [
        (20, False, None),
        (30, True, "first"),
    ]
    assert moves(latest, "two", "offset") == [(30,)]


def test_of44_a_tombstone_takes_what_is_pending(history: Rows, latest: Rows) -> None:
    assert moves(history, "buried", "kind", "offset", "outcome", "effective") == [
        ("first", 5, "committed", True),
        (None, 8, "committed", False),
        ("deleted", None, "committed", True),
    ]
    assert moves(latest, "buried") == []


def test_of33_what_is_pending_is_not_told_yet(latest: Rows) -> None:
    assert moves(latest, "waiting", "offset", "pending") == [(5, True)]
    assert moves(latest, "txn", "partition", "offset", "pending") == [(0, 11, False)]


def test_removals_and_what_comes_after(history: Rows, latest: Rows) -> None:
    assert moves(history, "deleted", "partition", "kind", "previous_offset", "offset") == [
        (0, "first", None, 5),
        (1, "first", None, 5),
        (0, "deleted", 5, None),
        (0, "first", None, 6),
    ]
    assert moves(history, "gone", "kind", "actor") == [
        ("first", "admin/simple"),
        ("deleted", "admin/simple"),
    ]
    assert moves(latest, "deleted", "partition", "offset") == [(1, 5), (0, 6)]
    assert moves(latest, "gone") == moves(latest, "left") == []


@pytest.mark.parametrize("group", ["own", "old"])
def test_an_offset_whose_time_was_up_has_expired(history: Rows, group: str) -> None:
    assert moves(history, group, "kind", "actor", "member", "previous_offset") == [
        ("first", "admin/simple", None, None),
        ("expired", "coordinator", None, 1),
    ]


def test_longer_retention_makes_it_a_deletion(inputs: Inputs) -> None:
    rows = rows_of(commits.JOB, inputs, retention_minutes=RETENTION_MINUTES + 1)
    assert moves(rows, "old", "kind") == [("first",), ("deleted",)]
    assert moves(rows, "own", "kind") == [("first",), ("expired",)]


def test_records_whose_transactions_the_source_has_resolved_count_as_they_are(
    inputs: Inputs, spark: SparkSession
) -> None:
    entries = inputs.entries.where("marker IS NULL").withColumns(
        {
            "transactional": f.lit(None).cast("boolean"),
            "producer_id": f.lit(None).cast("long"),
            "producer_epoch": f.lit(None).cast("short"),
        }
    )
    rows = rows_of(commits.JOB, inputs_of(spark, entries))
    assert {row["outcome"] for row in rows} == {"committed"}
    assert all(row["effective_offset"] == row["log_offset"] for row in rows)


def legacy(now_ms: int) -> list[tuple[bytes, bytes]]:
    """Keys and values as older brokers wrote them: type 0, and values of versions 0 to 3."""

    def text(word: str) -> bytes:
        return struct.pack(">h", len(word)) + word.encode()

    def key(number: int, partition: int) -> bytes:
        return struct.pack(">h", number) + text("g") + text("t") + struct.pack(">i", partition)

    def offset(version: int, value: int) -> bytes:
        return struct.pack(">hq", version, value)

    time = struct.pack(">q", now_ms)
    expiry = struct.pack(">q", now_ms + 60_000)
    return [
        (key(0, 0), offset(0, 10) + text("a") + time),
        (key(1, 1), offset(1, 11) + text("b") + time + expiry),
        (key(1, 2), offset(2, 12) + text("c") + time),
        (key(1, 3), offset(3, 13) + struct.pack(">i", 6) + text("d") + time),
        (key(1, 0), offset(0, 14) + text("e") + time),  # the same place as the one of type 0
    ]


def test_lg17_and_lg18_records_of_older_brokers(spark: SparkSession) -> None:
    batch = encode_batch(0, 0, START_MS, legacy(START_MS))
    inputs = inputs_of(spark, entries_of(spark, {0: [batch]}))
    names = ("partition", "offset", "leader_epoch", "metadata", "topic_id")
    rows = rows_of(offsets.JOB, inputs)
    assert [tuple(row[name] for name in names) for row in rows] == [
        (0, 14, -1, "e", None),
        (1, 11, -1, "b", None),
        (2, 12, -1, "c", None),
        (3, 13, 6, "d", None),
    ]
    assert [row["expire_time"] is not None for row in rows] == [False, True, False, False]
    assert [row["kind"] for row in rows_of(commits.JOB, inputs)] == [*["first"] * 4, "forward"]


def test_a_clock_that_once_stood_too_far_ahead_hides_nothing(spark: SparkSession) -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.now_ms += 3_600_000
    log.commit("g", 1, 2)
    log.now_ms -= 3_600_000
    log.commit("g", 0, 3)
    at_ms = log.now_ms
    log.commit("g", 0, 4)
    inputs = inputs_of(spark, entries_of(spark, {0: log.batches}))
    rows = rows_of(offsets.JOB, inputs, at=str(at_ms))
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 3), (1, 2)]
    assert rows_of(offsets.JOB, inputs, at="2001-01-01") == []
    with pytest.raises(PipelineError, match="yesterday"):
        offsets.JOB.build(inputs, {"at": "yesterday"})


def test_of35_a_topic_that_was_made_anew_is_told(spark: SparkSession) -> None:
    log = LoggedShard()
    for group, topic_id in (("with", T_ID), ("without", NO_TOPIC_ID)):
        value = OffsetCommitValue(5, topic_id=topic_id)
        log.write([Record(OffsetCommitKey(group, "t", 0), value)])
    entries = entries_of(spark, {0: log.batches})
    seen, there = (T_TEXT, "t", None), (T_TEXT, "t", 3)
    for topics, expected in (
        ([there], {"with": True, "without": None}),
        ([(OTHER_TEXT, "t", 3), seen], {"with": False, "without": None}),
        ([seen], {"with": None, "without": None}),
        ([], {"with": None, "without": None}),
    ):
        rows = rows_of(offsets.JOB, inputs_of(spark, entries, topics))
        assert {row["group"]: row["topic_is_current"] for row in rows} == expected
        assert [row["offset"] for row in rows] == [5, 5]
