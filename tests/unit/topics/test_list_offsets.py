"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import Operation
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    LeaderEpochPartition,
    LeaderEpochTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
)
from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import encode_batch

T = 1_600_000_000_000


def many(*timestamps):
    """One batch whose records have these timestamps (deltas below 64)."""
    parts = [encode_batch(0, -1, timestamps[0], [(None, b"v")])[61:] for _ in timestamps]
    body = b""
    for n, (part, timestamp) in enumerate(zip(parts, timestamps, strict=True)):
        record = bytearray(part)
        record[2], record[3] = (timestamp - timestamps[0]) * 2, n * 2
        body += bytes(record)
    data = bytearray(encode_batch(0, -1, timestamps[0], [(None, b"v")])[:61] + body)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, len(timestamps) - 1)
    struct.pack_into(">q", data, 35, max(timestamps))
    struct.pack_into(">i", data, 57, len(timestamps))
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    assert parse_header(bytes(data)).record_count == len(timestamps)
    return bytes(data)


async def ask(cluster, timestamp, name="t", partition=0, epoch=-1, **options):
    asked = ListOffsetsPartition(partition, timestamp, epoch)
    request = ListOffsetsRequest((ListOffsetsTopic(name, (asked,)),))
    return (await cluster.ask(request, **options)).topics[0].partitions[0]


async def found(cluster, timestamp, **options):
    listed = await ask(cluster, timestamp, **options)
    assert listed.error == ErrorCode.NONE
    return listed.offset, listed.timestamp_ms, listed.leader_epoch


async def delete_records(cluster, offset, name="t", partition=0, **options):
    request = DeleteRecordsRequest((DeleteRecordsTopic(name, ((partition, offset),)),))
    result = (await cluster.ask(request, **options)).topics[0].partitions[0]
    return result.error, result.low_watermark


@pytest.fixture
async def filled(cluster):
    await cluster.create("t")
    await cluster.produce("t", many(T, T + 20, T + 10))
    await cluster.produce("t", many(T + 30, T + 40))
    await cluster.produce("t", many(T + 15))
    return cluster


NOT_FOUND = (-1, -1, -1)


async def test_an_empty_log(cluster):
    await cluster.create("t")
    assert await found(cluster, -1) == (0, -1, 0)
    assert await found(cluster, -2) == (0, -1, 0)
    assert await found(cluster, -3) == NOT_FOUND
    assert await found(cluster, T) == NOT_FOUND


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (6, -1, 0)),
        (-2, (0, -1, 0)),
        (-3, (4, T + 40, 0)),
        (-4, (0, -1, 0)),
        (-5, NOT_FOUND),
        (-6, NOT_FOUND),
        (0, (0, T, 0)),
        (T, (0, T, 0)),
        (T + 1, (1, T + 20, 0)),
        (T + 20, (1, T + 20, 0)),
        (T + 21, (3, T + 30, 0)),
        (T + 31, (4, T + 40, 0)),
        (T + 41, NOT_FOUND),
    ],
)
async def test_where(filled, timestamp, expected):
    assert await found(filled, timestamp) == expected


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 20)])
async def test_names_need_their_version(filled, timestamp, version):
    refused = await ask(filled, timestamp, version=version)
    assert refused.error == ErrorCode.UNSUPPORTED_VERSION


async def test_refusals(filled):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(filled, -1, name="no")).error == unknown
    assert (await ask(filled, -1, partition=1)).error == unknown
    assert (await ask(filled, -1, epoch=1)).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await ask(filled, -1, epoch=-2)).error == ErrorCode.FENCED_LEADER_EPOCH
    refused = await ask(filled, -1, allows=lambda op, *_: op != Operation.DESCRIBE)
    assert refused.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    twice = ListOffsetsTopic("t", (ListOffsetsPartition(0, -1), ListOffsetsPartition(0, -2)))
    reply = await filled.ask(ListOffsetsRequest((twice,)))
    assert [p.error for p in reply.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


async def test_a_failing_store(filled):
    filled.store.fail_next_read()
    assert (await ask(filled, T)).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_after_records_were_deleted(filled):
    assert await delete_records(filled, 2) == (ErrorCode.NONE, 2)
    assert await found(filled, -2) == (2, -1, 0)
    assert await found(filled, T) == (2, T + 10, 0)
    # The match inside the first batch is gone; the search goes on behind it.
    assert await found(filled, T + 11) == (3, T + 30, 0)
    await filled.restart()
    assert await found(filled, -2) == (2, -1, 0)


async def test_a_stored_batch_that_can_not_be_unpacked(cluster):
    """Older versions of groupd took such batches from producers."""
    await cluster.create("t")
    await cluster.produce("t", many(T))
    packed = bytearray(many(T + 10, T + 20))
    struct.pack_into(">h", packed, 21, 4)
    struct.pack_into(">I", packed, 17, crc32c(bytes(packed[21:])))
    log = await cluster.plane.partitions.open(cluster.plane.catalogue.topic("t"), 0)
    append = log.stage(parse_header(packed), bytes(packed))
    await cluster.store.append([append])
    log.durable(append)
    listed = await ask(cluster, T + 20)
    assert (listed.error, listed.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def test_log_append_time(cluster):
    await cluster.create("t", message_timestamp_type="LogAppendTime")
    await cluster.produce("t", many(T, T + 1))
    assert await found(cluster, -3) == (0, cluster.START_MS, 0)
    assert await found(cluster, T + 5) == (0, cluster.START_MS, 0)


async def test_consumer_offsets(cluster):
    assert (await ask(cluster, -1, OFFSETS_TOPIC, 4)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.shards.set(4, 3, 9)
    assert await found(cluster, -1, name=OFFSETS_TOPIC, partition=4) == (9, -1, 0)
    assert await found(cluster, -2, name=OFFSETS_TOPIC, partition=4) == (3, -1, 0)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-1, (ErrorCode.NONE, 6)),
        (6, (ErrorCode.NONE, 6)),
        (0, (ErrorCode.NONE, 0)),
        (7, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ],
)
async def test_delete_records(filled, offset, expected):
    assert await delete_records(filled, offset) == expected
    assert (await filled.fetch("t", 6)).log_start_offset == max(0, expected[1])


async def test_delete_records_never_goes_back(filled):
    await delete_records(filled, 4)
    assert await delete_records(filled, 2) == (ErrorCode.NONE, 4)
    assert (await filled.fetch("t", 3)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await filled.fetch("t", 4)).error == ErrorCode.NONE


async def test_delete_records_refusals(filled, monkeypatch):
    await filled.create("c", cleanup_policy="compact")
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete_records(filled, 0, "no") == unknown
    assert await delete_records(filled, 0, "t", 1) == unknown
    assert await delete_records(filled, 0, "c") == (ErrorCode.POLICY_VIOLATION, -1)
    internal = await delete_records(filled, 0, OFFSETS_TOPIC)
    assert internal == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    refused = await delete_records(filled, 0, allows=lambda op, *_: op != Operation.DELETE)
    assert refused == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    await filled.store.close()
    assert await delete_records(filled, 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def epoch_end(cluster, epoch, name="t", current=-1, **options):
    asked = LeaderEpochPartition(0, epoch, current)
    request = OffsetForLeaderEpochRequest((LeaderEpochTopic(name, (asked,)),))
    end = (await cluster.ask(request, **options)).topics[0].partitions[0]
    return end.error, end.leader_epoch, end.end_offset


async def test_the_end_of_an_epoch(filled):
    assert await epoch_end(filled, 0) == (ErrorCode.NONE, 0, 6)
    assert await epoch_end(filled, 1) == (ErrorCode.NONE, -1, -1)
    assert await epoch_end(filled, -1) == (ErrorCode.NONE, -1, -1)
    assert await epoch_end(filled, 0, "no") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await epoch_end(filled, 0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    refused = await epoch_end(filled, 0, allows=lambda *_: False)
    assert refused == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1)
    await filled.restart()
    filled.store.fail_next_read()
    assert await epoch_end(filled, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
