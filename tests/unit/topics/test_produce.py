"""Produce: every refusal, offsets, durability, order, and what happens after a failed append."""

from __future__ import annotations

import asyncio
import gzip
import struct

import cramjam
import pytest
from crc32c import crc32c

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import Operation
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.topics import DeleteTopicsRequest
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.log import LogFenced, LogUnavailable, LogUncertain
from groupd.storage.memory import MemoryStore


def patched(payload, at, layout, value):
    """The batch with one header field changed and the checksum made right again."""
    data = bytearray(payload)
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def packed(payload, codec, compress):
    """The batch with compressed records."""
    data = bytearray(payload[:61] + bytes(compress(payload[61:])))
    struct.pack_into(">i", data, 8, len(data) - 12)
    return patched(bytes(data), 21, ">h", codec)


def values(records):
    return [r.value for b in iter_batches(bytes(records)) for r in iter_records(b)]


async def test_offsets_follow_each_other(cluster):
    await cluster.create("t")
    first = await cluster.produce("t", cluster.batch(b"a", b"b"))
    second = await cluster.produce("t", cluster.batch(b"c"))
    assert (first.error, first.base_offset, second.base_offset) == (ErrorCode.NONE, 0, 2)
    assert (first.log_append_time_ms, first.log_start_offset) == (-1, 0)
    fetched = await cluster.fetch("t")
    headers = [b.header for b in iter_batches(bytes(fetched.records))]
    assert [(h.base_offset, h.leader_epoch) for h in headers] == [(0, 0), (2, 0)]
    assert values(fetched.records) == [b"a", b"b", b"c"]


async def test_by_topic_id(cluster):
    topic_id = await cluster.create("t")
    assert (await cluster.produce("", cluster.batch(), topic_id=topic_id)).error == ErrorCode.NONE
    refused = await cluster.produce("", cluster.batch(), topic_id=b"x" * 16)
    assert refused.error == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("name", "partition"), [("no", 0), ("t", 1), ("t", -1)])
async def test_unknown_topic_or_partition(cluster, name, partition):
    await cluster.create("t")
    refused = await cluster.produce(name, cluster.batch(), partition)
    assert refused.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.plane.catalogue.topic("no") is None


@pytest.mark.parametrize("acks", [2, -2])
async def test_invalid_acks(cluster, acks):
    await cluster.create("t")
    refused = await cluster.produce("t", cluster.batch(), acks=acks)
    assert refused.error == ErrorCode.INVALID_REQUIRED_ACKS


async def test_internal_topics_are_not_written(cluster):
    assert (await cluster.produce(OFFSETS_TOPIC, cluster.batch())).error == (
        ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    by_id = await cluster.produce("", cluster.batch(), topic_id=GROUP_COORDINATOR.topic.topic_id)
    assert by_id.error == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_produce_needs_rights(cluster):
    topic_id = await cluster.create("t")
    for request in (
        cluster.produce_request("t", 0, cluster.batch()),
        cluster.produce_request("", 0, cluster.batch(), topic_id=topic_id),
        cluster.produce_request("no", 0, cluster.batch()),
    ):
        reply = await cluster.ask(request, allows=lambda op, *_: op != Operation.WRITE)
        assert reply.topics[0].partitions[0].error == ErrorCode.TOPIC_AUTHORIZATION_FAILED


GOOD = encode_batch(0, -1, 1_700_000_000_000, [(None, b"v")])
BAD_BATCHES = {
    "none": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "magic 0": (GOOD[:16] + b"\0" + GOOD[17:], ErrorCode.INVALID_RECORD),
    "magic 1": (GOOD[:16] + b"\1" + GOOD[17:], ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "cut header": (GOOD[:40], ErrorCode.INVALID_RECORD),
    "cut records": (GOOD[:-1], ErrorCode.INVALID_RECORD),
    "length": (patched(GOOD, 8, ">i", 20), ErrorCode.CORRUPT_MESSAGE),
    "wrong crc": (GOOD[:-1] + b"\1", ErrorCode.CORRUPT_MESSAGE),
    "base offset": (encode_batch(5, -1, 0, [(None, b"v")]), ErrorCode.INVALID_RECORD),
    "no records": (patched(GOOD, 57, ">i", 0), ErrorCode.INVALID_RECORD),
    "count too large": (patched(GOOD, 57, ">i", 2), ErrorCode.INVALID_RECORD),
    "negative delta": (patched(GOOD, 23, ">i", -1), ErrorCode.INVALID_RECORD),
    "unknown codec": (patched(GOOD, 21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "control": (encode_batch(0, -1, 0, [(b"", b"")], 1, 1, control=True), ErrorCode.INVALID_RECORD),
    "no sequence": (
        encode_batch(0, -1, 0, [(None, b"v")], 7, 0, -1),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
async def test_refused_batches(cluster, case):
    await cluster.create("t")
    records, code = BAD_BATCHES[case]
    refused = await cluster.produce("t", records)
    assert (refused.error, refused.base_offset) == (code, -1)
    assert refused.error_message
    assert (await cluster.fetch("t")).high_watermark == 0


async def test_zstd_needs_version_7(cluster):
    await cluster.create("t")
    request = cluster.produce_request("t", 0, packed(GOOD, 4, cramjam.zstd.compress))
    for version, code in ((6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)):
        reply = await cluster.ask(request, version=version)
        assert reply.topics[0].partitions[0].error == code


async def test_the_topics_size_limit(cluster):
    size = len(cluster.batch(b"x" * 100))
    await cluster.create("t", max_message_bytes=str(size))
    assert (await cluster.produce("t", cluster.batch(b"x" * 100))).error == ErrorCode.NONE
    refused = await cluster.produce("t", cluster.batch(b"x" * 101))
    assert refused.error == ErrorCode.MESSAGE_TOO_LARGE


async def test_the_brokers_size_limit(make_cluster):
    cluster = await make_cluster(MemoryStore(), message_max_bytes=100).start()
    await cluster.create("t")
    refused = await cluster.produce("t", cluster.batch(b"x" * 100))
    assert refused.error == ErrorCode.MESSAGE_TOO_LARGE
    await cluster.stop()


async def test_log_append_time(cluster):
    await cluster.create("t", message_timestamp_type="LogAppendTime")
    cluster.clock.advance(5)
    made = await cluster.produce("t", cluster.batch(b"a", timestamp=1))
    assert made.log_append_time_ms == cluster.START_MS + 5
    fetched = await cluster.fetch("t")
    (stored,) = iter_batches(bytes(fetched.records))
    assert [r.timestamp_ms for r in iter_records(stored)] == [cluster.START_MS + 5]


async def test_timestamps_out_of_range(cluster):
    await cluster.create("t", message_timestamp_before_max_ms="1000")
    hour = 3_600_000
    for timestamp, code in (
        (cluster.START_MS + hour, ErrorCode.NONE),
        (cluster.START_MS + hour + 1, ErrorCode.INVALID_TIMESTAMP),
        (cluster.START_MS - 1000, ErrorCode.NONE),
        (cluster.START_MS - 1001, ErrorCode.INVALID_TIMESTAMP),
    ):
        assert (await cluster.produce("t", cluster.batch(timestamp=timestamp))).error == code


async def test_compacted_topics_want_keys(cluster):
    await cluster.create("t", cleanup_policy="compact")
    assert (await cluster.produce("t", cluster.batch())).error == ErrorCode.INVALID_RECORD
    assert (await cluster.produce("t", cluster.batch(key=b"k"))).error == ErrorCode.NONE


async def test_compressed_batches_are_stored_as_they_came(cluster):
    await cluster.create("t")
    records = packed(cluster.batch(b"a", b"b"), 1, gzip.compress)
    assert (await cluster.produce("t", records)).error == ErrorCode.NONE
    assert bytes((await cluster.fetch("t")).records)[17:] == records[17:]


async def test_se_68_no_reply_for_acks_0(cluster):
    await cluster.create("t")
    request = cluster.produce_request("t", 0, cluster.batch(b"a"), acks=0)
    assert await cluster.ask(request) is None
    assert values((await cluster.fetch("t")).records) == [b"a"]
    bad = cluster.produce_request("no", 0, cluster.batch(b"a"), acks=0)
    with pytest.raises(ApiError) as failed:
        await cluster.ask(bad)
    assert failed.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_one_request_is_one_call_of_the_writer(make_cluster):
    store, calls = MemoryStore(), []

    async def writer(appends):
        calls.append([(append.name, append.base_offset) for append in appends])
        await store.append(appends)

    cluster = await make_cluster(store).start(writer=writer)
    topic_id = await cluster.create("t", 2)
    parts = tuple(ProducePartition(n, cluster.batch()) for n in (0, 1, 5))
    reply = await cluster.ask(ProduceRequest((ProduceTopic("t", bytes(16), parts),)))
    assert [part.error for part in reply.topics[0].partitions] == [0, 0, 3]
    assert calls == [[(f"{topic_id.hex()}-0", 0), (f"{topic_id.hex()}-1", 0)]]
    await cluster.stop()


async def test_nothing_is_said_or_shown_before_it_is_durable(cluster):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"old"))
    cluster.store.hold_appends()
    pending = asyncio.create_task(cluster.produce("t", cluster.batch(b"new")))
    await cluster.settle()
    assert cluster.store.held_appends == 1
    assert not pending.done()
    assert values((await cluster.fetch("t")).records) == [b"old"]
    assert (await cluster.fetch("t")).high_watermark == 1
    cluster.store.release_appends()
    assert (await pending).base_offset == 1
    assert values((await cluster.fetch("t", 1)).records) == [b"new"]


@pytest.mark.parametrize("opened", [False, True])
async def test_pipelined_requests_keep_their_order(cluster, opened):
    await cluster.create("t", 2)
    if opened:
        await cluster.produce("t", cluster.batch(producer=9, epoch=0), 1)
        await cluster.produce("t", cluster.batch(producer=9, epoch=0), 0)

    def parts(n):
        sequence = n + 1 if opened else n
        payload = cluster.batch(b"%d" % n, producer=9, epoch=0, sequence=sequence)
        # Every other request also needs the second partition: more to open, more to wait for.
        used = (1, 0) if n % 2 == 0 else (0,)
        return tuple(
            ProducePartition(p, payload if p == 0 else cluster.batch(b"side")) for p in used
        )

    requests = [
        asyncio.create_task(cluster.ask(ProduceRequest((ProduceTopic("t", bytes(16), parts(n)),))))
        for n in range(5)
    ]
    replies = await asyncio.gather(*requests)
    offsets = [reply.topics[0].partitions[-1].base_offset for reply in replies]
    assert offsets == [n + opened for n in range(5)]
    stored = values((await cluster.fetch("t", int(opened))).records)
    assert stored == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_hung_up_client_does_not_stop_its_append(cluster):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"0"))
    cluster.store.hold_appends()
    gone = asyncio.create_task(cluster.produce("t", cluster.batch(b"1")))
    await cluster.settle()
    gone.cancel()
    await cluster.settle()
    cluster.store.release_appends()
    assert (await cluster.produce("t", cluster.batch(b"2"))).base_offset == 2
    assert values((await cluster.fetch("t")).records) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("applied", [False, True])
async def test_after_a_failed_append_the_store_decides(cluster, applied):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"0", producer=4, epoch=0))
    cluster.store.fail_next_append(LogUnavailable("disk full"), applied=applied)
    lost = cluster.batch(b"1", producer=4, epoch=0, sequence=1)
    failed = await cluster.produce("t", lost)
    assert (failed.error, failed.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    again = await cluster.produce("t", lost)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 1)
    assert values((await cluster.fetch("t")).records) == [b"0", b"1"]


async def test_an_append_whose_outcome_is_unknown(cluster):
    """librdkafka takes every other error for a promise that nothing was written."""
    await cluster.create("t")
    cluster.store.fail_next_append(LogUncertain("the connection was lost"), applied=True)
    lost = cluster.batch(b"0", producer=4, epoch=0)
    assert (await cluster.produce("t", lost)).error == ErrorCode.REQUEST_TIMED_OUT
    again = await cluster.produce("t", lost)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 0)


async def test_what_is_under_way_behind_a_failure_fails_too(cluster):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"0"))
    cluster.store.hold_appends()
    pending = [asyncio.create_task(cluster.produce("t", cluster.batch(b"%d" % n))) for n in (1, 2)]
    await cluster.settle()
    cluster.store.fail_next_append(LogUnavailable("disk full"))
    cluster.store.release_appends()
    codes = [(await task).error for task in pending]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (await cluster.produce("t", cluster.batch(b"3"))).base_offset == 1
    assert values((await cluster.fetch("t")).records) == [b"0", b"3"]


async def test_a_log_taken_over_by_another_is_reopened(cluster):
    topic_id = await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"0"))
    await cluster.store.open(f"{topic_id.hex()}-0")
    fenced = await cluster.produce("t", cluster.batch(b"1"))
    assert fenced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster.produce("t", cluster.batch(b"1"))).base_offset == 1


async def test_a_partition_that_can_not_be_opened(cluster):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"0"))
    await cluster.restart()
    cluster.store.fail_next_read()
    assert (await cluster.produce("t", cluster.batch())).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.produce("t", cluster.batch())).base_offset == 1


async def test_a_topic_deleted_under_an_append(cluster):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"0"))
    cluster.store.hold_appends()
    pending = asyncio.create_task(cluster.produce("t", cluster.batch(b"1")))
    await cluster.settle()
    await cluster.ask(DeleteTopicsRequest((("t", bytes(16)),)))
    cluster.store.release_appends()
    assert (await pending).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    gone = await cluster.produce("t", cluster.batch(b"1"))
    assert gone.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_bug_in_the_writer_is_not_hidden(make_cluster):
    store = MemoryStore()

    async def writer(appends):
        raise RuntimeError("bug")

    cluster = await make_cluster(store).start(writer=writer)
    await cluster.create("t")
    with pytest.raises(RuntimeError, match="bug"):
        await cluster.produce("t", cluster.batch())
    await cluster.stop()


async def test_a_fenced_neighbour(cluster):
    """LogFenced for one log of a call: nothing of the call was written; all are retried."""
    first = await cluster.create("t", 2)
    for n in (0, 1):
        await cluster.produce("t", cluster.batch(), n)
    cluster.store.fail_next_append(LogFenced([f"{first.hex()}-0"]))
    parts = tuple(ProducePartition(n, cluster.batch()) for n in (0, 1))
    request = ProduceRequest((ProduceTopic("t", bytes(16), parts),))
    codes = [part.error for part in (await cluster.ask(request)).topics[0].partitions]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    offsets = [part.base_offset for part in (await cluster.ask(request)).topics[0].partitions]
    assert offsets == [1, 1]
