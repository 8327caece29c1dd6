"""ConsumerGroupDescribe (69), v0-1, flexible (KIP-848). v1 adds the member type (KIP-1099)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedTopicPartitions,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(reader.array(Reader.string), reader.boolean())


def write(writer: Writer, reply: ConsumerGroupDescribeReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.groups, _write_group)


def _write_group(writer: Writer, group: DescribedConsumerGroup) -> Generator[None, None, None]:
    writer.int16(group.error)
    writer.nullable_string(group.error_message)
    writer.string(group.group_id)
    writer.string(group.state)
    writer.int32(group.group_epoch)
    writer.int32(group.assignment_epoch)
    writer.string(group.assignor_name)
    yield from writer.long_structs_in_steps(group.members, _write_member)
    writer.int32(group.authorized_operations)


def _write_member(writer: Writer, member: DescribedConsumerMember) -> Generator[None, None, None]:
    writer.string(member.member_id)
    writer.nullable_string(member.instance_id)
    writer.nullable_string(member.rack_id)
    writer.int32(member.member_epoch)
    writer.string(member.client_id)
    writer.string(member.client_host)
    yield from writer.array_in_steps(member.subscribed_topic_names, Writer.string)
    writer.nullable_string(member.subscribed_topic_regex)
    yield from _write_assignment(writer, member.assignment)
    yield from _write_assignment(writer, member.target_assignment)
    if writer.version >= 1:
        writer.int8(member.member_type)


def _write_assignment(
    writer: Writer, topics: tuple[NamedTopicPartitions, ...]
) -> Generator[None, None, None]:
    yield from writer.structs_in_steps(topics, _write_topic)
    writer.end()


def _write_topic(writer: Writer, topic: NamedTopicPartitions) -> None:
    writer.uuid(topic.topic_id)
    writer.string(topic.topic_name)
    writer.int32_array(topic.partitions)


def failure(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeReply:
    """Puts the error on every requested group."""
    return ConsumerGroupDescribeReply(
        mapped(lambda group_id: DescribedConsumerGroup(group_id, code, message), request.group_ids)
    )


API = api(69, ConsumerGroupDescribeRequest, "0-1", "0+", read, write, failure)
