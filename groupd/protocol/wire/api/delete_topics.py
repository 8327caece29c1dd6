"""DeleteTopics (20), v1-6.

v4 is flexible, v5 adds the error message, v6 gives topics by name or id.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.topics import DeletedTopic, DeleteTopicsReply, DeleteTopicsRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DeleteTopicsRequest:
    if reader.version <= 5:
        topics = reader.array(_named)
    else:
        topics = reader.structs(_topic)
    timeout_ms = reader.int32()
    return DeleteTopicsRequest(topics, timeout_ms)


def _named(reader: Reader) -> tuple[str | None, TopicId]:
    return reader.string(), NO_TOPIC_ID


def _topic(reader: Reader) -> tuple[str | None, TopicId]:
    return reader.nullable_string(), reader.uuid()


def write(writer: Writer, reply: DeleteTopicsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.structs_in_steps(reply.topics, _write_topic)


def _write_topic(writer: Writer, topic: DeletedTopic) -> None:
    if writer.version >= 6:
        writer.nullable_string(topic.name)
        writer.uuid(topic.topic_id)
    else:
        writer.string(topic.name or "")
    writer.int16(topic.error)
    if writer.version >= 5:
        writer.nullable_string(topic.error_message)


def failure(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsReply:
    return DeleteTopicsReply(
        mapped(lambda key: DeletedTopic(*key, error=code, error_message=message), request.topics)
    )


API = api(20, DeleteTopicsRequest, "1-6", "4+", read, write, failure)
