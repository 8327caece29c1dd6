"""DeleteTopics (20), v1-6.

v4 is flexible, v5 adds the error message, v6 gives topics by name or id.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.topics import DeletedTopic, DeleteTopicsReply, DeleteTopicsRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DeleteTopicsRequest:
    topics = reader.array(_topic)
    timeout_ms = reader.int32()
    reader.end()
    return DeleteTopicsRequest(topics, timeout_ms)


def _topic(reader: Reader) -> tuple[str | None, TopicId]:
    if reader.version <= 5:
        return reader.string(), NO_TOPIC_ID
    name = reader.nullable_string()
    topic_id = reader.uuid()
    reader.end()
    return name, topic_id


def encode(reply: DeleteTopicsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        if version >= 6:
            writer.nullable_string(topic.name)
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name or "")
        writer.int16(topic.error)
        if version >= 5:
            writer.nullable_string(topic.error_message)
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsReply:
    return DeleteTopicsReply(
        tuple(DeletedTopic(name, topic_id, code, message) for name, topic_id in request.topics)
    )


API = Api(20, "DeleteTopics", 1, 6, _FLEXIBLE_FROM, DeleteTopicsRequest, decode, encode, failure)
