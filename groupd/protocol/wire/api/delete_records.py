"""DeleteRecords (21), v0-2. v1 changes throttling only, v2 is flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    DeletedRecords,
    DeletedRecordsTopic,
    DeleteRecordsReply,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


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


def write(writer: Writer, reply: DeleteRecordsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)


def _write_topic(writer: Writer, topic: DeletedRecordsTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, _write_partition)


def _write_partition(writer: Writer, item: DeletedRecords) -> None:
    writer.int32(item.partition)
    writer.int64(item.low_watermark)
    writer.int16(item.error)


def failure(request: DeleteRecordsRequest, code: ErrorCode, _: str | None) -> DeleteRecordsReply:
    def topic(asked: DeleteRecordsTopic) -> DeletedRecordsTopic:
        partitions = mapped(lambda item: DeletedRecords(item[0], error=code), asked.partitions)
        return DeletedRecordsTopic(asked.name, partitions)

    return DeleteRecordsReply(mapped(topic, request.topics))


API = api(21, DeleteRecordsRequest, "0-2", "2+", read, write, failure)
