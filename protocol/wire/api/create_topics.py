"""CreateTopics (19), v2-7.

v4 lets partitions and replication factor be -1, v5 is flexible and adds partitions, replication
factor and configs to the reply, v6 adds an error code only, v7 the topic id.

The configs array is nullable, but Java's Admin client fails on null: it is always written.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    CreatedTopic,
    CreateTopicsReply,
    CreateTopicsRequest,
    NewTopic,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 5


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> CreateTopicsRequest:
    topics = reader.array(_topic)
    timeout_ms = reader.int32()
    validate_only = reader.boolean()
    reader.end()
    return CreateTopicsRequest(topics, timeout_ms, validate_only)


def _topic(reader: Reader) -> NewTopic:
    topic = NewTopic(
        name=reader.string(),
        partitions=reader.int32(),
        replication_factor=reader.int16(),
        assignments=reader.array(_assignment),
        configs=reader.array(_config),
    )
    reader.end()
    return topic


def _assignment(reader: Reader) -> tuple[int, tuple[int, ...]]:
    partition = reader.int32()
    node_ids = reader.int32_array()
    reader.end()
    return partition, node_ids


def _config(reader: Reader) -> tuple[str, str | None]:
    name = reader.string()
    value = reader.nullable_string()
    reader.end()
    return name, value


def encode(reply: CreateTopicsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        writer.string(topic.name)
        if version >= 7:
            writer.uuid(topic.topic_id)
        writer.int16(topic.error)
        writer.nullable_string(topic.error_message)
        if version >= 5:
            _write_created(writer, topic)
    writer.end()
    return writer.buffer


def _write_created(writer: Writer, topic: CreatedTopic) -> None:
    writer.int32(topic.partitions)
    writer.int16(topic.replication_factor)
    writer.array_length(len(topic.configs))
    for config in topic.configs:
        writer.string(config.name)
        writer.nullable_string(config.value)
        writer.boolean(config.read_only)
        writer.int8(config.source)
        writer.boolean(config.sensitive)
        writer.end()
    if topic.config_error:
        writer.tagged([(0, topic.config_error.to_bytes(2, "big", signed=True))])
    else:
        writer.end()


def failure(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsReply:
    return CreateTopicsReply(
        tuple(
            CreatedTopic(topic.name, error=code, error_message=message) for topic in request.topics
        )
    )


API = Api(19, "CreateTopics", 2, 7, _FLEXIBLE_FROM, CreateTopicsRequest, decode, encode, failure)
