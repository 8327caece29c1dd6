"""Fetch (1), v4-18.

v5 adds the log start offset, v7 sessions and the top-level error, v9 the current leader epoch, v11
rack and preferred read replica, v12 is flexible and adds the last fetched epoch and the diverging
epoch, v13 names topics by id, v15 moves the replica id into a tagged field, v16 adds node endpoints
to the reply, v17 and v18 only tagged fields that replicas send.

This is a hot path: records are appended to the reply as they come from the log, in one copy.
Cluster id, replica directory id and a replica's high watermark are skipped: only replicas send
them, and this broker is the only one. The preferred read replica is always -1, and there is never a
snapshot id (KRaft logs only).
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchedDataTopic,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    FetchRequest,
    ForgottenTopic,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.leaders import ENDPOINT, LEADER, current_leader, node_endpoints
from groupd.protocol.wire.registry import api
from groupd.protocol.wire.schema import converted, struct
from groupd.protocol.writer import Writer

_FETCHED_V4 = Struct(">ihqq")
_FETCHED_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_DIVERGING = Struct(">iqx")
_REPLICA_STATE_TAG = 1


def _read(reader: Reader) -> FetchRequest:
    replica_id = reader.int32() if reader.version <= 14 else -1
    max_wait_ms = reader.int32()
    min_bytes = reader.int32()
    max_bytes = reader.int32()
    isolation_level = reader.int8()
    session_id = reader.int32() if reader.version >= 7 else 0
    session_epoch = reader.int32() if reader.version >= 7 else -1
    topics = reader.structs(_topic)
    forgotten = reader.structs(_forgotten) if reader.version >= 7 else ()
    rack_id = reader.string() if reader.version >= 11 else ""
    if reader.version >= 15:
        state = reader.tagged_fields().get(_REPLICA_STATE_TAG)
        if state is not None:
            replica_id = Reader(state, 0, reader.version, flexible=True).int32()
    return FetchRequest(
        topics=topics,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        forgotten=forgotten,
        rack_id=rack_id,
        replica_id=replica_id,
    )


def _topic(reader: Reader) -> FetchDataTopic:
    name, topic_id = _name_or_id(reader)
    return FetchDataTopic(name, topic_id, _partitions(reader))


def _name_or_id(reader: Reader) -> tuple[str, bytes]:
    return ("", reader.uuid()) if reader.version >= 13 else (reader.string(), NO_TOPIC_ID)


def _partitions(reader: Reader) -> tuple[FetchPartition, ...]:
    """Reads all partitions of a topic at once: a consumer names hundreds in each request."""
    if reader.version >= 12:
        return tuple(
            [
                FetchPartition(partition, offset, max_bytes, epoch, last_epoch, log_start)
                for partition, epoch, offset, last_epoch, log_start, max_bytes in reader.rows(
                    "iiqiqi"
                )
            ]
        )
    if reader.version >= 9:
        return tuple(
            [
                FetchPartition(partition, offset, max_bytes, epoch, -1, log_start)
                for partition, epoch, offset, log_start, max_bytes in reader.rows("iiqqi")
            ]
        )
    if reader.version >= 5:
        return tuple(
            [
                FetchPartition(partition, offset, max_bytes, log_start_offset=log_start)
                for partition, offset, log_start, max_bytes in reader.rows("iqqi")
            ]
        )
    return tuple([FetchPartition(*row) for row in reader.rows("iqi")])


def _forgotten(reader: Reader) -> ForgottenTopic:
    name, topic_id = _name_or_id(reader)
    partitions = reader.int32_array()
    return ForgottenTopic(name, topic_id, partitions)


def _write(writer: Writer, reply: FetchReply) -> Generator[None, None, None]:
    writer.throttle_time()
    if writer.version >= 7:
        writer.int16(reply.error)
        writer.int32(reply.session_id)
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)
    if writer.version >= 16 and reply.node_endpoints:
        writer.tagged_field(0, node_endpoints(reply.node_endpoints))


def _write_topic(writer: Writer, topic: FetchedDataTopic) -> Generator[None, None, None]:
    if writer.version >= 13:
        writer.uuid(topic.topic_id)
    else:
        writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, _write_partition)


def _write_partition(writer: Writer, partition: FetchedPartition) -> None:
    head = (
        partition.partition,
        partition.error,
        partition.high_watermark,
        partition.last_stable_offset,
    )
    if writer.version >= 5:
        writer.buffer += _FETCHED_V5.pack(*head, partition.log_start_offset)
    else:
        writer.buffer += _FETCHED_V4.pack(*head)
    if partition.aborted is None:
        writer.null_array()
    else:
        for producer_id, first_offset in writer.structs(partition.aborted):
            writer.buffer += _ABORTED.pack(producer_id, first_offset)
    if writer.version >= 11:
        writer.int32(-1)
    writer.bytes_(partition.records)
    writer.weigh(len(partition.records))
    if partition.diverging_epoch is not None:
        writer.tagged_field(0, _DIVERGING.pack(*partition.diverging_epoch))
    if partition.current_leader is not None:
        writer.tagged_field(1, current_leader(partition.current_leader))


def _failure(request: FetchRequest, code: ErrorCode, _: str | None) -> FetchReply:
    """The error code at the top, for v7+, and on every partition, for versions without a top-level
    error."""

    def topic(asked: FetchDataTopic) -> FetchedDataTopic:
        partitions = mapped(lambda item: FetchedPartition(item.partition, code), asked.partitions)
        return FetchedDataTopic(asked.name, asked.topic_id, partitions)

    return FetchReply(error=code, topics=mapped(topic, request.topics))


_NAME_OR_ID = "name:string@0-12 topic_id:uuid@13+"

FETCH = api(
    1,
    "4-18",
    "12+",
    struct(
        FetchRequest,
        "replica_id:int32@0-14 max_wait_ms:int32 min_bytes:int32 max_bytes:int32 "
        "isolation_level:int8 session_id:int32@7+ session_epoch:int32@7+ topics:[]topic "
        "forgotten:[]forgotten@7+ rack_id:string@11+ replica_id:replica@15+#1",
        topic=struct(
            FetchDataTopic,
            f"{_NAME_OR_ID} partitions:[]partition",
            partition=struct(
                FetchPartition,
                "partition:int32 current_leader_epoch:int32@9+ fetch_offset:int64 "
                "last_fetched_epoch:int32@12+ log_start_offset:int64@5+ partition_max_bytes:int32",
            ),
        ),
        forgotten=struct(ForgottenTopic, f"{_NAME_OR_ID} partitions:[]int32"),
        replica=struct(None, "replica_id:int32 -:int64=-1"),
    ),
    struct(
        FetchReply,
        "throttle error:error@7+ session_id:int32@7+ topics:[]topic node_endpoints:[]node@16+#0",
        topic=struct(
            FetchedDataTopic,
            f"{_NAME_OR_ID} partitions:[]partition",
            partition=struct(
                FetchedPartition,
                "partition:int32 error:error high_watermark:int64 last_stable_offset:int64 "
                "log_start_offset:int64@5+ aborted:[]aborted? -:int32=-1@11+ records:records "
                "diverging_epoch:diverging@12+#0 current_leader:leader@12+#1",
                aborted=struct(tuple, "0:int64 1:int64"),
                records=converted("bytes?", read=lambda records: records or b""),
                diverging=struct(tuple, "0:int32 1:int64"),
                leader=LEADER,
            ),
        ),
        node=ENDPOINT,
    ),
    _failure,
    read=_read,
    write=_write,
)
