"""Share sessions over TCP (docs/spec/share-group.md#4.1). All of it holds for a real broker too
(GROUPD_PEER=kafka), but for what says so."""

from __future__ import annotations

from tests.support.kio_entities import Plain
from tests.support.peer import peer_kind
from tests.support.process import wait_until
from tests.wire.share_members import (
    LOCK_MS,
    SESSIONS_MAX,
    ShareTopic,
    acked,
    acquired,
    entries_of,
    foo,
    partitions_of,
    peer,
)

__all__ = ["foo", "peer"]

SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = -1, 3, 100
INVALID, SESSION_NOT_FOUND, INVALID_EPOCH, TOO_MANY_SESSIONS = 42, 122, 123, 133


def test_sg_67_the_first_reply_names_all_partitions_and_later_ones_only_news(
    foo: ShareTopic,
) -> None:
    member = foo.member()
    reply = member.fetch(0, [0, 1, 2], max_wait=1000)
    found = partitions_of(reply)
    assert {number: one["error_code"] for number, one in found.items()} == {0: 0, 1: 0, 2: 0}
    assert reply["acquisition_lock_timeout"] == LOCK_MS
    assert partitions_of(member.late(1)) == {}


def test_sg_68_without_a_session(foo: ShareTopic) -> None:
    member = foo.member()
    for epoch in (3, -1):
        for reply in (member.fetch(epoch), member.acknowledge(epoch)):
            assert reply["error_code"] == SESSION_NOT_FOUND
            assert reply["acquisition_lock_timeout"] == 0
    assert member.acknowledge(0)["error_code"] == INVALID_EPOCH


def test_sg_69_fetch_and_acknowledge_share_their_epochs(foo: ShareTopic) -> None:
    member = foo.member()
    assert member.fetch(0, [0], max_records=0)["error_code"] == 0
    assert member.fetch(1, max_records=0)["error_code"] == 0
    for epoch in (1, 3, -7):
        assert member.fetch(epoch, max_records=0)["error_code"] == INVALID_EPOCH
    assert member.fetch(2, max_records=0)["error_code"] == 0
    assert member.acknowledge(3)["error_code"] == 0
    assert member.fetch(4, max_records=0)["error_code"] == 0


def test_sg_70_a_session_does_not_begin_with_acknowledgements(foo: ShareTopic) -> None:
    member = foo.member()
    member.fetch(0, [0], max_records=0)
    assert member.fetch(0, acks={0: [acked(0, 1)]})["error_code"] == INVALID
    assert member.fetch(1, max_records=0)["error_code"] == 0


def test_sg_71_records_outlive_a_session_that_a_new_one_replaces(foo: ShareTopic) -> None:
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert acquired(member.late(0, [0])) == []
    assert acquired(other.late(0, [0])) == []
    assert member.code(1, acked(0, 9)) == 0


def test_sg_72_a_last_fetch_acknowledges_and_releases_the_rest(foo: ShareTopic) -> None:
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    assert acquired(member.fetch(0, [0, 1])) == [(0, 9, 1)]
    (entry,) = entries_of(member.fetch(-1, acks={0: [acked(0, 4)]})).values()
    found = (entry["partition_index"], entry["error_code"], entry["acknowledge_error_code"])
    assert found == (0, 0, 0)
    assert acquired(other.fetch(0, [0])) == [(5, 9, 2)]
    assert member.fetch(-1)["error_code"] == SESSION_NOT_FOUND


def test_sg_73_a_last_acknowledge_releases_everything(foo: ShareTopic) -> None:
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert partitions_of(member.acknowledge(-1)) == {}
    assert acquired(other.fetch(0, [0])) == [(0, 9, 2)]


def test_sg_74_the_end_of_the_connection_releases_everything(foo: ShareTopic) -> None:
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    other.send_fetch(0, [0])
    member.client.close()
    assert acquired(other.client.receive()) == [(0, 9, 2)]
    assert foo.member().fetch(1)["error_code"] == SESSION_NOT_FOUND


def test_sg_75_sessions_are_limited(foo: ShareTopic) -> None:
    members = [foo.member(f"m{number}") for number in range(SESSIONS_MAX)]
    for member in members:
        # Sessions of tests before may end only now.
        wait_until(
            lambda: member.fetch(0, [0], max_records=0)["error_code"] == 0,  # noqa: B023
            10,
            "a session",
        )
    late = foo.member("late")
    assert late.late(0, [0], max_records=0)["error_code"] == TOO_MANY_SESSIONS
    assert members[0].fetch(0, [0], max_records=0)["error_code"] == 0
    members[1].client.close()
    wait_until(lambda: late.late(0, [0], max_records=0)["error_code"] == 0, 10, "a session")


def test_sg_76_a_forgotten_partition_is_not_read_but_can_be_acknowledged(foo: ShareTopic) -> None:
    foo.produce(10)
    foo.produce(10, partition=1)
    member, other = foo.member(), foo.member("m2")
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert acquired(member.fetch(1, [1]), 1) == [(0, 9, 1)]
    foo.produce(1)
    assert partitions_of(member.late(2, forget=[0])) == {}
    assert member.code(3, acked(0, 4)) == 0
    assert member.fetch(-1)["error_code"] == 0
    assert acquired(other.fetch(0, [1]), 1) == [(0, 9, 2)]
    assert acquired(other.fetch(1, [0])) == [(10, 10, 1)]
    assert acquired(other.late(2)) == [], "they stay locked until their time is over"


def test_sg_77_a_partition_may_be_acknowledged_and_forgotten_at_once(foo: ShareTopic) -> None:
    foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    reply = member.late(1, acks={0: [acked(0, 9)]}, forget=[0])
    assert partitions_of(reply)[0]["acknowledge_error_code"] == 0
    foo.produce(10)
    assert partitions_of(member.late(2)) == {}


def test_sg_77_a_topic_may_come_twice(foo: ShareTopic) -> None:
    foo.produce(10)
    foo.produce(10, partition=1)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert acquired(member.fetch(1, [1]), 1) == [(0, 9, 1)]
    found = partitions_of(member.acknowledge(2, {0: [acked(0, 9)], 1: [acked(0, 9)]}))
    assert {number: one["error_code"] for number, one in found.items()} == {0: 0, 1: 0}


def test_sg_77_a_partition_may_come_twice(foo: ShareTopic) -> None:
    foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    topics = [
        {
            "topic_id": foo.topic_id,
            "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}],
        }
        for batch in (acked(0, 4), acked(5, 9))
    ]
    assert partitions_of(member.acknowledge(1, topics=topics))[0]["error_code"] == 0
    # Kafka keeps only the last entry (docs/compat.md, Share-partitions).
    left = [(0, 4, 2)] if peer_kind() == "kafka" else []
    assert foo.offsets()[1] == 5 * len(left)
    assert member.fetch(-1)["error_code"] == 0
    assert acquired(foo.member("m2").fetch(0, [0], max_wait=1000)) == left


def test_sg_78_a_new_partition_is_named_once(foo: ShareTopic) -> None:
    member = foo.member()
    member.fetch(0, max_records=0)
    found = partitions_of(member.fetch(1, [0], max_wait=1000))
    assert {number: one["error_code"] for number, one in found.items()} == {0: 0}
    assert partitions_of(member.late(2)) == {}


def test_sg_78_sg_81_a_partition_that_has_failed_is_named_again(foo: ShareTopic) -> None:
    """Here because nobody has initialized it."""
    foo.delete_state()
    foo.produce(10)
    member = foo.member()
    reply = member.fetch(0, [0, 1], max_wait=1000)
    found = {number: one["error_code"] for number, one in partitions_of(reply).items()}
    assert found == {0: SERVER_ERROR, 1: SERVER_ERROR}
    foo.initialize()
    assert acquired(member.fetch(1)) == [(0, 9, 1)]


def test_sg_79_topics_that_cannot_be_read(foo: ShareTopic) -> None:
    """Where a right is missing, see test_share_rights.py."""
    member = foo.member()
    wanted = {(b"?" * 16, 0): UNKNOWN_TOPIC_ID, (foo.topic_id, 7): UNKNOWN_TOPIC_OR_PARTITION}
    found = entries_of(member.late(0, wanted))
    assert {place: one["error_code"] for place, one in found.items()} == wanted
    found = entries_of(member.late(1, acks={place: [acked(0, 1)] for place in wanted}))
    assert {
        place: (one["error_code"], one["acknowledge_error_code"]) for place, one in found.items()
    } == {place: (code, code) for place, code in wanted.items()}


def test_sg_82_a_fetch_that_another_one_has_overtaken(foo: ShareTopic) -> None:
    """A broker reads one request of a connection after the other, so there are two."""
    member, again = foo.member(), foo.member()
    assert member.fetch(0, [0], max_records=0)["error_code"] == 0
    member.send_fetch(1)
    wait_until(lambda: again.fetch(2, max_records=0)["error_code"] == 0, 10, "the first is read")
    again.send_fetch(3, max_wait=1000)
    foo.produce(10)
    assert member.client.receive()["error_code"] == INVALID_EPOCH
    given = acquired(again.client.receive())
    # In Kafka the first one has acquired them at times (docs/compat.md, Share-partitions).
    assert given == [(0, 9, 1)] or (peer_kind() == "kafka" and given == [])
    assert again.code(4, acked(0, 9)) == 0, "they are the member's all the same"


def test_sg_83_requests_that_make_no_sense(foo: ShareTopic) -> None:
    member = foo.member()
    member.fetch(0, [0], max_records=0)
    limits: Plain = {"max_wait": 0, "min_bytes": 0, "max_records": 0, "max_bytes": 0}
    for name in limits:
        reply = member.fetch(1, is_renew_ack=True, **{**limits, name: 1})
        assert reply["error_code"] == INVALID, name
    foo.produce(10)
    assert acquired(member.fetch(1)) == [(0, 9, 1)]
    fields: Plain = {"acks": {0: [acked(0, 9)]}, "share_acquire_mode": 2}
    assert member.fetch(2, **fields)["error_code"] == SERVER_ERROR
    # In Kafka it has done all but the fetch (docs/compat.md, Share-partitions).
    done = peer_kind() == "kafka"
    assert member.fetch(3 if done else 2, max_records=0)["error_code"] == 0
    assert foo.offsets()[1] == (0 if done else -1)
