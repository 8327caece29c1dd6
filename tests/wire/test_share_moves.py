"""What stays of a share group that its members leave, whose settings or offsets are altered, or
whose leader is started again, over TCP. All of it holds for a real broker too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

import pytest

from tests.support.kio_entities import Plain
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.wire.share_members import (
    RELEASE,
    STATE_EPOCH,
    ShareTopic,
    SharingMember,
    acked,
    acquired,
    error_codes,
    foo,
    partitions_of,
    peer,
)

__all__ = ["foo", "peer"]

NOT_LEADER = 6


def restarted(foo: ShareTopic) -> SharingMember:
    """A member on a connection to the broker, which was killed and started again."""
    foo.peer.restart()
    foo.close()
    foo.client = WireClient(foo.peer.host, foo.peer.port)
    return foo.member()


def test_sg_104_sg_105_after_a_restart(foo: ShareTopic, place: str) -> None:
    """Unacknowledged records are new; counts and what is over are kept."""
    if place == "memory":
        pytest.skip("nothing outlives the process")
    for _ in range(3):
        foo.produce(10)
    foo.produce(10, partition=1)
    member = foo.member()
    assert acquired(member.fetch(0, [0], max_records=20)) == [(0, 19, 1)]
    assert member.code(1, acked(10, 19)) == 0
    assert acquired(member.fetch(2, [1], forget=[0]), 1) == [(0, 9, 1)]
    for epoch in (3, 5):
        reply = member.acknowledge(epoch, {1: [acked(0, 9, RELEASE)]})
        assert not error_codes(reply), reply
        if epoch == 3:
            assert acquired(member.fetch(4), 1) == [(0, 9, 2)]
    member = restarted(foo)
    served: list[Plain] = []

    def serves() -> bool:
        served[:] = [member.fetch(0, [0], max_records=15, max_wait=1000)]
        return bool(acquired(served[0])) if not error_codes(served[0]) else False

    wait_until(serves, 60, "the share-partition")
    assert acquired(served[0]) == [(0, 9, 1), (20, 29, 1)]
    assert acquired(member.fetch(1, [1]), 1) == [(0, 9, 3)]


def test_sg_106_an_altered_start_offset_fences_the_leader(foo: ShareTopic) -> None:
    for _ in range(2):
        foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0], max_records=10)) == [(0, 9, 1)]
    foo.initialize(15, STATE_EPOCH + 1)
    # The leader hears of it with its next write.
    assert acquired(foo.member("m2").fetch(0, [0])) == [(10, 19, 1)]
    entry = partitions_of(member.acknowledge(1, {0: [acked(0, 9)]}))[0]
    assert entry["error_code"] == NOT_LEADER
    assert entry["current_leader"]["leader_epoch"] == 0
    assert acquired(member.fetch(2)) == [(15, 19, 1)]


def test_sg_40_the_delivery_limit_counts_as_it_is_now(foo: ShareTopic) -> None:
    foo.produce(10)
    member = foo.member()
    for number in range(3):
        found = acquired(member.fetch(2 * number, [] if number else [0]))
        assert found == [(0, 9, number + 1)]
        if number == 2:
            foo.configure(share_delivery_count_limit="2")
        member.release(2 * number + 1, *found)
    assert acquired(member.late(6)) == []
    assert foo.offsets()[1] == 0


def test_sg_36_leaving_the_group_releases_nothing(foo: ShareTopic) -> None:
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    member.join()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    member.leave()
    assert acquired(other.late(0, [0])) == []
    assert member.code(1, acked(0, 4)) == 0
    assert member.acknowledge(-1)["error_code"] == 0
    assert acquired(other.fetch(1)) == [(5, 9, 2)]


def test_sg_51_the_start_offset_of_a_group_is_altered(foo: ShareTopic) -> None:
    foo.produce(10)
    member = foo.member()
    member.join()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert member.code(1, acked(0, 1), acked(2, 9, RELEASE)) == 0
    member.leave()
    assert member.acknowledge(-1)["error_code"] == 0
    # With the connection of its last session the leader forgets the group.
    member.client.close()
    topics = [{"topic_name": foo.name, "partitions": [{"partition_index": 0, "start_offset": 4}]}]
    reply = foo.client.call("AlterShareGroupOffsets", 0, group_id=foo.group, topics=topics)
    assert not error_codes(reply), reply
    assert foo.offsets() == (4, 6)
    assert acquired(foo.member("m2").fetch(0, [0])) == [(4, 9, 1)]
