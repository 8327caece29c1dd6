"""Produce looks at every record: structure, keys, timestamps, and how long that may take."""

from __future__ import annotations

import asyncio
import gzip

import cramjam
import pytest
from crc32c import crc32c

from groupd.coordinator.topics.batch_checks import RECORD_ERRORS_MAX
from groupd.coordinator.topics.produce_entry import AT_ONCE_BYTES
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.records.batch import iter_batches, parse_header
from groupd.protocol.records.batch_builder import encode_batch, pack_batch
from groupd.protocol.records.varints import zigzag
from groupd.storage.memory import MemoryStore

HOUR_MS = 3_600_000
CODECS = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (3, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data))),
}


def record(delta, *, time=0, key=b"k", length=None, headers=b"\0"):
    key = b"\1" if key is None else zigzag(len(key)) + key
    body = b"\0" + zigzag(time) + zigzag(delta) + key + zigzag(1) + b"v" + headers
    return zigzag(len(body) if length is None else length) + body


def batch(cluster, *records, count=None, codec="none", **fields):
    """A batch with the records' bytes; `fields` of its header."""
    number, compress = CODECS[codec]
    count = len(records) if count is None else count
    header = parse_header(encode_batch(0, -1, cluster.START_MS, [(None, b"")]))._replace(
        attributes=number, last_offset_delta=count - 1, record_count=count
    )
    header = header._replace(**fields)
    return pack_batch(header, compress(b"".join(records)))


THREE = [record(0), record(1), record(2)]
BROKEN = {
    "random bytes": [bytes(range(97, 126))],
    "one missing": THREE[:2],
    "one too many": [*THREE, record(3)],
    "a byte too many": [*THREE, b"\0"],
    "a byte missing": [*THREE[:2], THREE[2][:-1]],
    "no records": [],
    "a gap": [record(0), record(1), record(3)],
    "offsets from 1": [record(1), record(2), record(3)],
    "a record's length": [record(0, length=5), record(1), record(2)],
    "less than no headers": [record(0, headers=b"\1"), record(1), record(2)],
    "a header without name": [record(0, headers=b"\2\1\0"), record(1), record(2)],
    "a varint of six bytes": [*THREE[:2], b"\x8e\x80\x80\x80\x80\0" + THREE[2][1:]],
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("case", BROKEN)
async def test_broken_records_are_refused(cluster, case, codec):
    await cluster.create("t")
    refused = await cluster.produce("t", batch(cluster, *BROKEN[case], count=3, codec=codec))
    assert (refused.error, refused.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert refused.error_message
    assert (refused.record_errors, refused.log_start_offset) == ((), 0)
    assert (await cluster.fetch("t")).high_watermark == 0
    taken = await cluster.produce("t", batch(cluster, *THREE, codec=codec))
    assert (taken.error, taken.base_offset) == (ErrorCode.NONE, 0)
    assert (await cluster.fetch("t")).high_watermark == 3


async def test_a_count_of_2_to_the_31(cluster):
    await cluster.create("t")
    refused = await cluster.produce("t", batch(cluster, *THREE, count=2**31 - 1))
    assert refused.error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_what_can_not_be_unpacked_is_refused(cluster, codec):
    await cluster.create("t")
    bad = batch(cluster, b"no such stream", count=3, attributes=CODECS[codec][0])
    refused = await cluster.produce("t", bad)
    assert refused.error == ErrorCode.INVALID_RECORD
    assert codec in refused.error_message


async def test_headers_that_are_no_utf8_are_taken(cluster):
    await cluster.create("t")
    odd = record(0, headers=b"\2\2\xff\2x")
    assert (await cluster.produce("t", batch(cluster, odd))).error == ErrorCode.NONE


# Keys and timestamps -------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
async def test_every_record_without_a_key_is_named(cluster, codec):
    await cluster.create("t", cleanup_policy="compact")
    records = [record(0, key=None), record(1), record(2, key=None)]
    refused = await cluster.produce("t", batch(cluster, *records, codec=codec))
    said = "Compacted topic cannot accept message without key in topic partition t-0"
    assert refused.error == ErrorCode.INVALID_RECORD
    assert [(one.index, one.message) for one in refused.record_errors] == [(0, said), (2, said)]
    assert refused.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing "
        f"the first three errors at most: [RecordError(batchIndex=0, message='{said}'), "
        f"RecordError(batchIndex=2, message='{said}')]"
    )
    assert refused.log_start_offset == 0


async def test_every_timestamp_out_of_range_is_named(cluster):
    await cluster.create("t", message_timestamp_before_max_ms="1000")
    times = [-1001, -1000, HOUR_MS, HOUR_MS + 1]
    records = [record(at, time=time) for at, time in enumerate(times)]
    refused = await cluster.produce("t", batch(cluster, *records))
    now = cluster.START_MS
    allowed = f"The timestamp should be within [{now - 1000}, {now + HOUR_MS}]"
    assert refused.error == ErrorCode.INVALID_TIMESTAMP
    assert refused.error_message == (
        "One or more records have been rejected due to invalid timestamp"
    )
    assert [(one.index, one.message) for one in refused.record_errors] == [
        (0, f"Timestamp {now - 1001} of message with offset 0 is out of range. {allowed}"),
        (3, f"Timestamp {now + HOUR_MS + 1} of message with offset 3 is out of range. {allowed}"),
    ]


async def test_keys_and_timestamps_at_once(cluster):
    """A wrong timestamp decides the code, as in Kafka; a record has one error."""
    await cluster.create("t", cleanup_policy="compact")
    records = [record(0, key=None, time=2 * HOUR_MS), record(1, time=2 * HOUR_MS)]
    refused = await cluster.produce("t", batch(cluster, *records))
    assert refused.error == ErrorCode.INVALID_TIMESTAMP
    assert [one.message.split()[0] for one in refused.record_errors] == ["Compacted", "Timestamp"]


async def test_the_header_does_not_decide_about_timestamps(cluster):
    """It is mended: readers find records by the largest timestamp of a batch."""
    await cluster.create("t", message_timestamp_before_max_ms="1000")
    late = cluster.START_MS + 5 * HOUR_MS
    records = [record(0, time=7), record(1, time=3)]
    taken = await cluster.produce("t", batch(cluster, *records, max_timestamp_ms=late))
    assert taken.error == ErrorCode.NONE
    (stored,) = iter_batches(bytes((await cluster.fetch("t")).records))
    assert stored.header.max_timestamp_ms == cluster.START_MS + 7
    assert crc32c(stored.payload[21:]) == stored.header.crc


async def test_records_without_timestamp(cluster):
    await cluster.create("t", message_timestamp_before_max_ms="1000")
    none = batch(cluster, *THREE, base_timestamp_ms=-1, max_timestamp_ms=-1)
    assert (await cluster.produce("t", none)).error == ErrorCode.NONE


async def test_timestamps_beyond_64_bits(cluster):
    await cluster.create("t", message_timestamp_after_max_ms=str(2**63 - 1))
    records = [record(0), record(1, time=2**62)]
    refused = await cluster.produce("t", batch(cluster, *records, base_timestamp_ms=2**62 + 5))
    assert refused.error == ErrorCode.INVALID_TIMESTAMP


async def test_log_append_time_is_for_the_broker_to_say(cluster):
    """Kafka takes the mark away where the topic has the producer's times, if there are any."""
    await cluster.create("create")
    await cluster.create("append", message_timestamp_type="LogAppendTime")
    marked = batch(cluster, *THREE, attributes=8)
    refused = await cluster.produce("append", marked)
    assert refused.error == ErrorCode.INVALID_TIMESTAMP
    assert [one.index for one in refused.record_errors] == [0, 1, 2]
    assert refused.record_errors[1].message == (
        f"Invalid timestamp type in message DefaultRecord(offset=1, timestamp={cluster.START_MS}, "
        "key=1 bytes, value=1 bytes). Producer should not set timestamp type to LogAppendTime."
    )
    timeless = batch(cluster, *THREE, attributes=8, base_timestamp_ms=-1, max_timestamp_ms=-1)
    assert (await cluster.produce("create", timeless)).error == ErrorCode.INVALID_TIMESTAMP
    assert (await cluster.produce("create", marked)).error == ErrorCode.NONE
    (stored,) = iter_batches(bytes((await cluster.fetch("create")).records))
    assert stored.header.attributes == 0


async def test_answers_name_so_many_records_and_count_all(cluster):
    await cluster.create("t", cleanup_policy="compact")
    records = [record(at, key=None) for at in range(RECORD_ERRORS_MAX + 5)]
    refused = await cluster.produce("t", batch(cluster, *records))
    assert len(refused.record_errors) == RECORD_ERRORS_MAX
    assert f"due to {RECORD_ERRORS_MAX + 5} record errors" in refused.error_message


# Time and memory -----------------------------------------------------------------------------


def padded(size):
    """A record with a value of so many bytes."""
    body = b"\0\0\0\1" + zigzag(size) + bytes(size) + b"\0"
    return zigzag(len(body)) + body


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_a_batch_unpacks_to_so_much_at_most(make_cluster, codec):
    """The limit holds also where it is more than is unpacked at once."""
    limit = 3 << 20
    cluster = await make_cluster(MemoryStore(), produce_unpacked_max_bytes=limit).start()
    await cluster.create("t")
    over = len(padded(limit)) - limit
    taken = await cluster.produce("t", batch(cluster, padded(limit - over), codec=codec))
    assert taken.error == ErrorCode.NONE
    refused = await cluster.produce("t", batch(cluster, padded(limit - over + 1), codec=codec))
    assert refused.error == ErrorCode.MESSAGE_TOO_LARGE
    assert refused.error_message == (f"The record batch has more than {limit} bytes when unpacked")
    await cluster.stop()


async def test_others_have_a_turn_while_a_long_batch_is_checked(cluster):
    await cluster.create("long")
    await cluster.create("short")
    for name in ("long", "short"):
        await cluster.produce(name, cluster.batch())
    ended = []

    async def send(name, records):
        result = await cluster.produce(name, records)
        assert result.error == ErrorCode.NONE
        ended.append((name, result.base_offset))

    long = batch(cluster, *[record(at) for at in range(50_000)])
    sent = [("long", long), ("long", cluster.batch()), ("short", cluster.batch())]
    async with asyncio.TaskGroup() as group:
        for name, records in sent:
            group.create_task(send(name, records))
    assert ended == [("short", 1), ("long", 1), ("long", 50_001)]


async def test_a_request_of_many_batches_is_checked_in_turns(cluster):
    await cluster.create("t", 20)
    await cluster.create("short")
    records = cluster.batch(bytes(AT_ONCE_BYTES))
    parts = tuple(ProducePartition(at, records) for at in range(20))
    for _ in range(2):  # the first time opens the partitions
        large = asyncio.create_task(
            cluster.ask(ProduceRequest((ProduceTopic("t", bytes(16), parts),)))
        )
        small = asyncio.create_task(cluster.produce("short", cluster.batch()))
        assert (await small).error == ErrorCode.NONE
        first = large.done()
        assert {one.error for one in (await large).topics[0].partitions} == {ErrorCode.NONE}
    assert not first


async def test_a_wrong_record_far_into_a_long_batch(cluster):
    await cluster.create("t")
    records = [record(at) for at in range(20_000)]
    records[19_000] = record(19_001)
    refused = await cluster.produce("t", batch(cluster, *records))
    assert refused.error == ErrorCode.INVALID_RECORD
    assert "19000" in refused.error_message
