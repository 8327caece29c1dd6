"""DeleteTopics (20), v1-6.

v4 is flexible, v5 adds the error message, v6 gives topics by name or id.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.topics import DeletedTopic, DeleteTopicsReply, DeleteTopicsRequest
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


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


def write(writer: Writer, reply: DeleteTopicsReply) -> None:
    writer.int32(0)
    for topic in writer.structs(reply.topics):
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
        tuple(DeletedTopic(name, topic_id, code, message) for name, topic_id in request.topics)
    )


API = api(20, DeleteTopicsRequest, "1-6", "4+", read, write, failure)
