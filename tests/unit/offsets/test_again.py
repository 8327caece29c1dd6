"""A commit that comes again asks its group every time, whatever kind of group it is."""

from __future__ import annotations

from msgspec.structs import replace

from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.offsets.again import CommitAgain
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
)
from tests.unit.classic_group.harness import Bench

TOPIC_ID = b"0123456789abcdef"
TOPICS = (CommitTopic("t", (CommitPartition(0, 7), CommitPartition(3, 8, 2, "")), TOPIC_ID),)


def again(bench: Bench, member_id: str, generation: int = 1) -> CommitAgain:
    request = OffsetCommitRequest("g", TOPICS, generation, member_id)
    commit = CommitAgain(bench.state, request, 9, OffsetCommitReply(()), [])
    assert commit.prepare()
    return commit


def test_it_is_a_sign_of_life_of_a_classic_member() -> None:
    bench = Bench()
    (member_id,) = bench.stable(1)
    commit = again(bench, member_id)
    bench.advance(6000)
    assert bench.session_due_in(member_id) == 4000
    assert commit.admitted(bench.state, bench.now)
    assert bench.session_due_in(member_id) == 10_000


def test_not_while_a_classic_group_waits_for_its_leader() -> None:
    bench = Bench()
    (member_id,) = bench.completing(1)
    assert not again(bench, member_id).admitted(bench.state, bench.now)
    bench.sync_all([member_id])
    assert again(bench, member_id).admitted(bench.state, bench.now)


def test_not_of_another_generation_nor_of_somebody_unknown() -> None:
    bench = Bench()
    (member_id,) = bench.stable(1)
    assert not again(bench, member_id, generation=2).admitted(bench.state, bench.now)
    assert not again(bench, "nobody").admitted(bench.state, bench.now)


def test_not_after_a_change_of_the_metadata_nor_without_the_group() -> None:
    bench = Bench()
    (member_id,) = bench.stable(1)
    commit = again(bench, member_id)
    image = bench.state.image
    bench.state.image = MetadataImage()
    assert not commit.admitted(bench.state, bench.now)
    bench.state.image = image
    assert commit.admitted(bench.state, bench.now)
    del bench.state.groups["g"]
    assert not commit.admitted(bench.state, bench.now)


def test_what_has_no_layout() -> None:
    bench = Bench()
    plain = OffsetCommitRequest("g", TOPICS)
    with_metadata = CommitTopic("t", (CommitPartition(0, 7, -1, "m"),), TOPIC_ID)
    for request in (
        replace(plain, retention_time_ms=1000),
        replace(plain, topics=(*TOPICS, with_metadata)),
        replace(plain, topics=(replace(TOPICS[0], topic_id=bytes(16)),)),
    ):
        assert not CommitAgain(bench.state, request, 4, OffsetCommitReply(()), []).prepare()


def test_what_is_left_in_memory() -> None:
    bench = Bench()
    commit = again(bench, "m")
    ((topic, stored),) = commit.stored((70, 80), 123, 40)
    assert topic == "t"
    assert {p: tuple(one) for p, one in stored.items()} == {
        0: (70, -1, "", 123, -1, TOPIC_ID, 40),
        3: (80, 2, "", 123, -1, TOPIC_ID, 41),
    }
