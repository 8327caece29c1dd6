"""OffsetFetch: scenarios OF-28..OF-36 (OF-37..39 are the shell's, save for where errors go)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offsets.refusals import refuse_fetch
from groupd.coordinator.core.types import Operation, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchedOffset,
    FetchTopic,
    OffsetFetchGroup,
)
from tests.unit.offsets.harness import OLD_ID, T1_ID, T2_ID, Shard, codes, offsets, topic

P0 = FetchTopic("t1", (0,))


@pytest.mark.parametrize("kind", ["unknown", "share"])
def test_of_28_no_group_is_no_error(shard: Shard, kind: str) -> None:
    if kind == "share":
        shard.group(type_name="share", fetch_error=ErrorCode.GROUP_ID_NOT_FOUND)
    reply = shard.fetch(P0)
    assert reply.error == 0
    assert reply.topics[0].partitions == (FetchedOffset(0, -1, -1, "", ErrorCode.NONE),)
    everything = shard.fetch_all()
    assert (everything.error, everything.topics) == (0, ())


def test_stored_offset_comes_back_whole(shard: Shard) -> None:
    shard.commit(topic(p0=CommitPartition(0, 42, 5, "m")))
    (entry,) = shard.fetch(P0).topics
    assert entry.partitions == (FetchedOffset(0, 42, 5, "m"),)


def test_of_29_denied_group_only(shard: Shard) -> None:
    shard.commit(topic(p0=1), group="seen")
    shard.allows = lambda operation, resource, name: (
        (operation, resource, name)
        != (
            Operation.DESCRIBE,
            Resource.GROUP,
            "hidden",
        )
    )
    assert offsets(shard.fetch(P0, group="seen", version=8)) == {("t1", 0): 1}
    denied = shard.fetch(P0, group="hidden", version=8)
    assert (denied.group_id, denied.error, denied.topics) == ("hidden", 30, ())
    assert shard.outcome is None


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_of_30_group_error_replaces_everything(shard: Shard, code: ErrorCode) -> None:
    group = shard.group(fetch_error=code)
    reply = shard.fetch(P0, FetchTopic("t2", (0,)), member_id="m", member_epoch=4)
    assert (reply.error, reply.topics) == (code, ())
    assert group.fetch_checks == [("m", 4)]


def test_of_31_of_32_member_fields_reach_the_group(shard: Shard) -> None:
    shard.commit(topic(p0=1))
    group = shard.group()
    assert offsets(shard.fetch(P0)) == {("t1", 0): 1}
    assert offsets(shard.fetch(P0, member_id="any", member_epoch=9)) == {("t1", 0): 1}
    assert group.fetch_checks == [(None, -1), ("any", 9)]


def test_of_33_pending_is_seen_by_stable_readers_only(shard: Shard) -> None:
    shard.commit(topic(p0=5))
    shard.txn_commit(topic(p0=9))
    assert offsets(shard.fetch(P0)) == {("t1", 0): 5}
    stable = shard.fetch(P0, require_stable=True)
    assert stable.topics[0].partitions == (FetchedOffset(0, -1, -1, "", ErrorCode(88)),)
    all_stable = shard.fetch_all(require_stable=True)
    assert codes(all_stable) == {("t1", 0): 88}


def test_of_34_pending_only_is_absent_from_fetch_all(shard: Shard) -> None:
    shard.txn_commit(topic(p0=9))
    assert shard.fetch_all(require_stable=True).topics == ()
    assert codes(shard.fetch(P0, require_stable=True)) == {("t1", 0): 88}
    assert offsets(shard.fetch(P0)) == {("t1", 0): -1}


def test_of_35_recreated_topic(shard: Shard) -> None:
    shard.commit(topic(p0=5))
    shard.state.image = MetadataImage([TopicImage(T2_ID, "t1", 10)])
    by_id = shard.fetch(FetchTopic("", (0,), T2_ID), version=10)
    assert offsets(by_id) == {("t1", 0): -1}
    assert by_id.topics[0].topic_id == T2_ID
    assert codes(by_id) == {("t1", 0): 0}
    assert offsets(shard.fetch(P0, version=9)) == {("t1", 0): 5}


def test_offset_without_id_is_found_by_id(shard: Shard) -> None:
    shard.commit(topic(p0=5), version=3, retention_time_ms=1000)
    assert offsets(shard.fetch(FetchTopic("", (0,), T1_ID), version=10)) == {("t1", 0): 5}


def test_of_36_fetch_all_of_a_deleted_topic(shard: Shard) -> None:
    shard.commit(topic(p3=5, p1=4), topic("t2", p0=6))
    shard.state.image = MetadataImage([TopicImage(OLD_ID, "t2", 1)])
    by_name = shard.fetch_all(version=9)
    assert offsets(by_name) == {("t1", 1): 4, ("t1", 3): 5, ("t2", 0): 6}
    by_id = shard.fetch_all(version=10)
    # The id comes from the cluster, not from the record.
    assert [(entry.name, entry.topic_id) for entry in by_id.topics] == [("t2", OLD_ID)]


def test_unknown_id_and_denied_topic_by_partition(shard: Shard) -> None:
    shard.allows = lambda operation, resource, name: name != "t2"
    reply = shard.fetch(
        FetchTopic("", (0,), T1_ID),
        FetchTopic("", (1,), OLD_ID),
        FetchTopic("", (0,), T2_ID),
        version=10,
    )
    assert [
        (entry.topic_id, entry.partitions[0].error, entry.partitions[0].offset)
        for entry in reply.topics
    ] == [(T1_ID, 0, -1), (OLD_ID, 100, -1), (T2_ID, 29, -1)]
    nothing_left = shard.fetch(FetchTopic("t2", (0,)), version=9)
    assert codes(nothing_left) == {("t2", 0): 29}
    assert shard.outcome is not None


def test_existence_is_not_checked_by_name_and_denied_topics_vanish(shard: Shard) -> None:
    assert codes(shard.fetch(FetchTopic("nope", (0,)))) == {("nope", 0): 0}
    shard.commit(topic(p0=1), topic("t2", p0=2))
    shard.allows = lambda operation, resource, name: name != "t1"
    assert offsets(shard.fetch_all()) == {("t2", 0): 2}


@pytest.mark.parametrize("version", [1, 5, 8])
def test_of_39_where_a_group_error_stands(version: int) -> None:
    request = OffsetFetchGroup("g", (FetchTopic("t1", (0, 1)),))
    reply = refuse_fetch(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    assert (reply.group_id, reply.error) == ("g", 14)
    assert codes(reply) == ({("t1", 0): 14, ("t1", 1): 14} if version == 1 else {})
