"""DeleteRecords (21), v0-2. v1 changes throttling only, v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    DeletedRecords,
    DeletedRecordsTopic,
    DeleteRecordsReply,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DeleteRecordsRequest:
    topics = reader.array(_topic)
    timeout_ms = reader.int32()
    reader.end()
    return DeleteRecordsRequest(topics, timeout_ms)


def _topic(reader: Reader) -> DeleteRecordsTopic:
    name = reader.string()
    partitions = reader.array(_partition)
    reader.end()
    return DeleteRecordsTopic(name, partitions)


def _partition(reader: Reader) -> tuple[int, int]:
    partition = reader.int32()
    before_offset = reader.int64()
    reader.end()
    return partition, before_offset


def encode(reply: DeleteRecordsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for item in topic.partitions:
            writer.int32(item.partition)
            writer.int64(item.low_watermark)
            writer.int16(item.error)
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


def failure(request: DeleteRecordsRequest, code: ErrorCode, _: str | None) -> DeleteRecordsReply:
    return DeleteRecordsReply(
        tuple(
            DeletedRecordsTopic(
                topic.name,
                tuple(DeletedRecords(partition, error=code) for partition, _ in topic.partitions),
            )
            for topic in request.topics
        )
    )


API = Api(21, "DeleteRecords", 0, 2, _FLEXIBLE_FROM, DeleteRecordsRequest, decode, encode, failure)
