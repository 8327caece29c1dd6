"""CreateTopics (19), v2-7.

v4 lets partitions and replication factor be -1, v5 is flexible and adds partitions, replication
factor and configs to the reply, v6 adds an error code only, v7 the topic id.

The configs array is nullable, but Java's Admin client fails on null: it is always written.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.topics import (
    ConfigValue,
    CreatedTopic,
    CreateTopicsReply,
    CreateTopicsRequest,
    NewTopic,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> CreateTopicsRequest:
    topics = reader.structs(_topic)
    timeout_ms = reader.int32()
    validate_only = reader.boolean()
    return CreateTopicsRequest(topics, timeout_ms, validate_only)


def _topic(reader: Reader) -> NewTopic:
    return NewTopic(
        name=reader.string(),
        partitions=reader.int32(),
        replication_factor=reader.int16(),
        assignments=reader.structs(_assignment),
        configs=reader.structs(_config),
    )


def _assignment(reader: Reader) -> tuple[int, tuple[int, ...]]:
    partition = reader.int32()
    node_ids = reader.int32_array()
    return partition, node_ids


def _config(reader: Reader) -> tuple[str, str | None]:
    name = reader.string()
    value = reader.nullable_string()
    return name, value


def write(writer: Writer, reply: CreateTopicsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)


def _write_topic(writer: Writer, topic: CreatedTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    if writer.version >= 7:
        writer.uuid(topic.topic_id)
    writer.int16(topic.error)
    writer.nullable_string(topic.error_message)
    if writer.version >= 5:
        yield from _write_created(writer, topic)


def _write_created(writer: Writer, topic: CreatedTopic) -> Generator[None, None, None]:
    writer.int32(topic.partitions)
    writer.int16(topic.replication_factor)
    yield from writer.structs_in_steps(topic.configs, _write_config)
    if topic.config_error:
        writer.tagged_field(0, topic.config_error.to_bytes(2, "big", signed=True))


def _write_config(writer: Writer, config: ConfigValue) -> None:
    writer.string(config.name)
    writer.nullable_string(config.value)
    writer.boolean(config.read_only)
    writer.int8(config.source)
    writer.boolean(config.sensitive)


def failure(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsReply:
    return CreateTopicsReply(
        mapped(
            lambda topic: CreatedTopic(topic.name, error=code, error_message=message),
            request.topics,
        )
    )


API = api(19, CreateTopicsRequest, "2-7", "5+", read, write, failure)
