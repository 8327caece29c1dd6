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
from groupd.protocol.wire.encode import Steps, Writer, without_stops
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ConsumerGroupDescribeRequest:
    request = ConsumerGroupDescribeRequest(reader.array(Reader.string), reader.boolean())
    reader.end()
    return request


def encode(reply: ConsumerGroupDescribeReply, version: int) -> bytearray:
    return without_stops(encode_steps(reply, version))


def encode_steps(reply: ConsumerGroupDescribeReply, version: int) -> Steps:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.array_length(len(reply.groups))
    for group in reply.groups:
        yield from _write_group(writer, group, version)
    writer.end()
    return writer.buffer


def _write_group(
    writer: Writer, group: DescribedConsumerGroup, version: int
) -> Generator[None, None, None]:
    writer.int16(group.error)
    writer.nullable_string(group.error_message)
    writer.string(group.group_id)
    writer.string(group.state)
    writer.int32(group.group_epoch)
    writer.int32(group.assignment_epoch)
    writer.string(group.assignor_name)
    yield from writer.array_steps(
        group.members, lambda member: _write_member(writer, member, version)
    )
    writer.int32(group.authorized_operations)
    writer.end()


def _write_member(writer: Writer, member: DescribedConsumerMember, version: int) -> None:
    writer.string(member.member_id)
    writer.nullable_string(member.instance_id)
    writer.nullable_string(member.rack_id)
    writer.int32(member.member_epoch)
    writer.string(member.client_id)
    writer.string(member.client_host)
    writer.array(member.subscribed_topic_names, writer.string)
    writer.nullable_string(member.subscribed_topic_regex)
    _write_assignment(writer, member.assignment)
    _write_assignment(writer, member.target_assignment)
    if version >= 1:
        writer.int8(member.member_type)
    writer.end()


def _write_assignment(writer: Writer, topics: tuple[NamedTopicPartitions, ...]) -> None:
    writer.array_length(len(topics))
    for topic in topics:
        writer.uuid(topic.topic_id)
        writer.string(topic.topic_name)
        writer.int32_array(topic.partitions)
        writer.end()
    writer.end()


def failure(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeReply:
    """The error stands on every group asked for."""
    return ConsumerGroupDescribeReply(
        tuple(DescribedConsumerGroup(group_id, code, message) for group_id in request.group_ids)
    )


API = Api(
    69,
    "ConsumerGroupDescribe",
    0,
    1,
    _FLEXIBLE_FROM,
    ConsumerGroupDescribeRequest,
    decode,
    encode,
    failure,
    encode_steps,
)
