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
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> DeleteRecordsRequest:
    topics = reader.structs(_topic)
    timeout_ms = reader.int32()
    return DeleteRecordsRequest(topics, timeout_ms)


def _topic(reader: Reader) -> DeleteRecordsTopic:
    name = reader.string()
    partitions = reader.structs(_partition)
    return DeleteRecordsTopic(name, partitions)


def _partition(reader: Reader) -> tuple[int, int]:
    partition = reader.int32()
    before_offset = reader.int64()
    return partition, before_offset


def write(writer: Writer, reply: DeleteRecordsReply) -> None:
    writer.int32(0)
    for topic in writer.structs(reply.topics):
        writer.string(topic.name)
        for item in writer.structs(topic.partitions):
            writer.int32(item.partition)
            writer.int64(item.low_watermark)
            writer.int16(item.error)


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


API = api(21, DeleteRecordsRequest, "0-2", "2+", read, write, failure)
