"""What members of share groups get, and when, over TCP (docs/spec/share-group.md#4.2 to #4.5). All
of it holds for a real broker too (GROUPD_PEER=kafka), but for what says so. The end of a lock is in
test_share_acknowledging.py."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from groupd.protocol.records.batch import iter_batches
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.kio_entities import Plain
from tests.support.process import wait_until
from tests.support.wire_requests import delete_records, fetch, list_offsets, listed
from tests.wire.share_members import (
    GAP,
    RECORD_LIMIT,
    RELEASE,
    ShareTopic,
    acked,
    acquired,
    error_codes,
    foo,
    offsets_in,
    partitions_of,
    peer,
)
from tests.wire.test_configs import SET, TOPIC, alter

__all__ = ["foo", "peer"]

OFFSET_NOT_AVAILABLE = 78
HOUR_MS = 3_600_000


def test_sg_84_each_record_goes_to_one_member(foo: ShareTopic) -> None:
    foo.produce(10)
    first, second = foo.member(), foo.member("m2")
    assert acquired(first.fetch(0, [0])) == [(0, 9, 1)]
    assert acquired(second.late(0, [0])) == []
    foo.produce(10)
    assert acquired(second.fetch(1)) == [(10, 19, 1)]


def test_sg_85_batches_are_whole_unless_the_limit_is_strict(foo: ShareTopic) -> None:
    foo.produce(10)
    foo.produce(10)
    first, second = foo.member(), foo.member("m2")
    strict: Plain = {"share_acquire_mode": RECORD_LIMIT}
    assert acquired(first.fetch(0, [0], max_records=1)) == [(0, 9, 1)]
    reply = first.fetch(1, max_records=1, **strict)
    assert acquired(reply) == [(10, 10, 1)]
    assert offsets_in(reply) == [(10, 19)]
    assert acquired(second.fetch(0, [0], max_records=5, **strict)) == [(11, 15, 1)]


def test_sg_86_batch_size_divides_what_was_acquired(foo: ShareTopic) -> None:
    for _ in range(10):
        foo.produce(1)
    member = foo.member()
    reply = member.fetch(0, [0], max_records=5, batch_size=1)
    assert acquired(reply) == [(offset, offset, 1) for offset in range(5)]
    assert offsets_in(reply) == [(offset, offset) for offset in range(5)]
    assert acquired(member.fetch(1, max_records=5)) == [(5, 9, 1)]


def test_sg_87_the_batch_that_reaches_the_limit_comes_too(foo: ShareTopic) -> None:
    for partition in range(2):
        for count in (5, 15, 15):
            foo.produce(count, partition)
    member = foo.member()
    assert acquired(member.fetch(0, [0], max_records=10)) == [(0, 19, 1)]
    strict: Plain = {"share_acquire_mode": RECORD_LIMIT}
    assert acquired(foo.member("m2").fetch(0, [1], max_records=10, **strict), 1) == [(0, 9, 1)]


def test_sg_88_the_partitions_share_one_budget_and_take_turns(foo: ShareTopic) -> None:
    member = foo.member()
    member.fetch(0, [0, 1], max_wait=1000)
    for partition in range(2):
        for _ in range(2):
            foo.produce(10, partition)
    given = []
    for epoch in range(1, 5):
        reply = member.fetch(epoch, max_records=10)
        given.append([number for number in range(2) if acquired(reply, number)])
    assert sorted(given) == [[0], [0], [1], [1]]


def test_sg_89_locks_are_limited(foo: ShareTopic) -> None:
    foo.configure(share_partition_max_record_locks="100")
    for _ in range(2):
        foo.produce(100)
    first, second = foo.member(), foo.member("m2")
    assert acquired(first.fetch(0, [0])) == [(0, 99, 1)]
    assert acquired(second.late(0, [0])) == []
    first.release(1, (20, 20, 1))
    assert acquired(second.fetch(1)) == [(20, 20, 2)]


def test_sg_90_accepted_records_behind_a_lock_count_too(foo: ShareTopic) -> None:
    foo.configure(share_partition_max_record_locks="100")
    for _ in range(2):
        foo.produce(100)
    first, second = foo.member(), foo.member("m2")
    assert acquired(first.fetch(0, [0])) == [(0, 99, 1)]
    assert first.code(1, acked(50, 99)) == 0
    assert acquired(second.late(0, [0])) == []
    assert first.code(2, acked(0, 49)) == 0
    assert acquired(second.fetch(1)) == [(100, 199, 1)]


@pytest.mark.parametrize("limit", ["max_records", "max_bytes"])
def test_sg_91_a_fetch_that_only_acknowledges(foo: ShareTopic, limit: str) -> None:
    for _ in range(2):
        foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0], max_records=10)) == [(0, 9, 1)]
    zero: Plain = {limit: 0}
    reply = member.fetch(1, acks={0: [acked(0, 9)]}, **zero)
    entry = partitions_of(reply)[0]
    found = (entry["error_code"], entry["acknowledge_error_code"], entry["acquired_records"])
    assert found == (0, 0, [])


def test_sg_92_it_waits_for_enough_bytes(foo: ShareTopic) -> None:
    member = foo.member()
    member.send_fetch(0, [0])
    foo.produce(10)
    assert acquired(member.client.receive()) == [(0, 9, 1)]
    foo.produce(10)
    started_s = time.monotonic()
    assert acquired(member.late(1, min_bytes=1 << 20)) == [(10, 19, 1)]
    assert time.monotonic() - started_s >= 0.3
    assert acquired(member.fetch(2, min_bytes=0)) == []


def test_sg_93_released_records_go_to_a_waiting_member_at_once(foo: ShareTopic) -> None:
    foo.produce(10)
    first, second = foo.member(), foo.member("m2")
    assert acquired(first.fetch(0, [0])) == [(0, 9, 1)]
    second.send_fetch(0, [0])
    first.release(1, (0, 9, 1))
    assert acquired(second.client.receive()) == [(0, 9, 2)]


def test_sg_95_the_last_delivery(foo: ShareTopic) -> None:
    foo.configure(share_delivery_count_limit="2")
    foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    member.release(1, (0, 9, 1))
    assert acquired(member.fetch(2)) == [(0, 9, 2)]
    member.release(3, (0, 9, 2))
    assert acquired(member.late(4)) == []
    assert foo.offsets()[1] == 0


def test_sg_96_records_that_fail_again_and_again_come_in_small_numbers(foo: ShareTopic) -> None:
    foo.produce(100)
    member, given = foo.member(), []
    for number in range(6):
        found = acquired(member.fetch(2 * number, [] if number else [0]))
        given.append([(last - first + 1, count) for first, last, count in found])
        member.release(2 * number + 1, *found)
    assert given == [[(100, 1)], [(100, 2)], [(100, 3)], [(50, 4)], [(1, 5)], [(1, 5)]]


def test_sg_97_a_last_delivery_comes_alone(foo: ShareTopic) -> None:
    foo.configure(share_delivery_count_limit="3")
    foo.produce(1)
    member = foo.member()
    for epoch in (0, 2):
        member.release(epoch + 1, *acquired(member.fetch(epoch, [] if epoch else [0])))
    foo.produce(10)
    assert acquired(member.fetch(4)) == [(0, 0, 3)]
    assert acquired(member.fetch(5)) == [(1, 10, 1)]


def test_sg_98_what_is_over_moves_the_start(foo: ShareTopic) -> None:
    for partition in range(2):
        foo.produce(10, partition)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert member.code(1, acked(0, 4), acked(5, 9, RELEASE)) == 0
    assert acquired(member.fetch(2)) == [(5, 9, 2)]
    assert acquired(member.fetch(3, [1]), 1) == [(0, 9, 1)]
    reply = member.acknowledge(4, {0: [acked(5, 5, RELEASE)], 1: [acked(5, 9)]})
    assert not error_codes(reply), reply
    assert foo.offsets() == (5, 5)
    assert foo.offsets(1) == (0, 5)


def test_sg_99_where_a_group_begins(foo: ShareTopic) -> None:
    for partition in range(3):
        foo.produce(1, partition, age_ms=2 * HOUR_MS)
        foo.produce(1, partition)
    member = foo.member()
    wanted = {"latest": [], "earliest": [(0, 1, 1)], "by_duration:PT1H": [(1, 1, 1)]}
    for partition, (reset, given) in enumerate(wanted.items()):
        foo.configure(share_auto_offset_reset=reset)
        # Each partition before has nothing more to give.
        reply = member.fetch(partition, [partition], max_wait=1000)
        assert acquired(reply, partition) == given, reset
    foo.produce(1)
    assert acquired(member.fetch(3)) == [(2, 2, 1)]
    assert member.code(4, acked(2, 2)) == 0
    foo.configure(share_auto_offset_reset="earliest")
    member.client.close()
    assert acquired(foo.member("m2").late(0, [0])) == []


def test_sg_99_no_record_is_young_enough(foo: ShareTopic) -> None:
    foo.configure(share_auto_offset_reset="by_duration:PT1H")
    reply = foo.member().fetch(0, [0], max_wait=1000)
    assert partitions_of(reply)[0]["error_code"] == OFFSET_NOT_AVAILABLE


@pytest.fixture
def producer(foo: ShareTopic) -> Producer:
    """A transactional producer."""
    made = Producer(
        {"bootstrap.servers": foo.peer.bootstrap, "transactional.id": foo.name, "log_level": 0}
    )
    made.init_transactions(60)
    return made


def send(foo: ShareTopic, producer: Producer, count: int) -> None:
    """Writes to partition 0 in a new transaction."""
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(foo.name, b"value", partition=0)
    assert producer.flush(20) == 0


def wait_for_end(foo: ShareTopic, offset: int) -> None:
    """Until all transactions before that offset have ended."""
    api, version, fields = list_offsets(foo.name, -1, isolation_level=1)
    wait_until(lambda: listed(foo.client.call(api, version, **fields)) == offset, 20, "the marker")


def test_sg_100_uncommitted_records_are_delivered(foo: ShareTopic, producer: Producer) -> None:
    send(foo, producer, 5)
    producer.abort_transaction(20)
    wait_for_end(foo, 6)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 5, 1)]
    assert member.code(1, acked(0, 4), acked(5, 5, GAP)) == 0
    assert foo.offsets()[1] == 0


def test_sg_101_aborted_records_are_left_out(foo: ShareTopic, producer: Producer) -> None:
    foo.configure(share_isolation_level="read_committed")
    send(foo, producer, 5)
    producer.abort_transaction(20)
    wait_for_end(foo, 6)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(5, 5, 1)]
    send(foo, producer, 1)
    assert acquired(member.late(1)) == []
    member.send_fetch(2)
    producer.commit_transaction(20)
    found = acquired(member.client.receive())
    if found == [(6, 6, 1)]:  # before the marker
        found += acquired(member.fetch(3))
    assert found in ([(6, 7, 1)], [(6, 6, 1), (7, 7, 1)])
    reply = member.acknowledge(4 if len(found) == 2 else 3, {0: [acked(5, 5, GAP), acked(6, 7)]})
    assert not error_codes(reply), reply
    assert foo.offsets()[1] == 0


def test_sg_102_deleted_records(foo: ShareTopic) -> None:
    for _ in range(3):
        foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0], max_records=1)) == [(0, 9, 1)]
    member.release(1, (0, 9, 1))
    api, version, fields = delete_records(foo.name, 20)
    assert not error_codes(foo.client.call(api, version, **fields))
    assert acquired(member.late(2)) == []
    assert acquired(member.fetch(3)) == [(20, 29, 1)]
    assert member.code(4, acked(20, 29)) == 0
    assert foo.offsets()[1] == 0


def test_sg_103_compacted_records(foo: ShareTopic) -> None:
    compacts = {
        "cleanup.policy": "compact",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.0",
    }
    assert alter(foo.client, TOPIC, foo.name, *[(key, SET, compacts[key]) for key in compacts]) == (
        0,
        None,
    )

    def append(*keys: bytes) -> None:
        now_ms = int(time.time() * 1000)
        foo.append(encode_batch(0, -1, now_ms, [(key, b"value") for key in keys]))

    keys = [b"%d" % number for number in range(10)]
    append(*keys)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    member.release(1, (0, 9, 1))
    append(*keys)
    api, version, fields = fetch(foo.name, 0)

    def compacted() -> bool:
        append(b"later")
        (found,) = foo.client.call(api, version, **fields)["responses"][0]["partitions"]
        return next(iter_batches(found["records"])).header.base_offset == 10

    wait_until(compacted, 30, "the compaction")
    given = acquired(member.fetch(2))
    assert (given[0][0], {count for _, _, count in given}) == (10, {1})
    assert member.code(3, *[acked(first, last) for first, last, _ in given]) == 0
    # The start offset that administrators see may be one write behind.
    append(b"last")
    ((first, last, _),) = acquired(member.fetch(4, max_records=1))
    assert member.code(5, acked(first, last)) == 0
    assert foo.offsets()[0] >= 10
