"""The requests about groups and their members that the command line makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from groupd.coordinator.cli.kafka.calls import error_name
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.core.classic_group.subscription import (
    MalformedSubscription,
    parse_assignment,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

LIST_GROUPS = Call(16, 4, "ListGroups", flexible=True)
LIST_TYPED_GROUPS = Call(16, 5, "ListGroups", flexible=True)
"""With the type of each group: Kafka has it since 3.8."""
DESCRIBE_GROUPS = Call(15, 5, "DescribeGroups", flexible=True)
DESCRIBE_CONSUMER_GROUPS = Call(69, 0, "ConsumerGroupDescribe", flexible=True)
"""Kafka has it where it has consumer groups."""

ASKED_AT_ONCE = 100
"""The most groups in one request."""
_CONSUMER = "consumer"


class FoundGroup(Struct, frozen=True):
    """`group_type`: "classic", "consumer" or another type of Kafka; None if the broker does not
    tell."""

    group_id: str
    state: str
    protocol_type: str
    group_type: str | None = None


class KafkaMember(Struct, frozen=True):
    """A member as a broker describes it. `owned`: its partitions by topic. `epoch` None: a member
    of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    owned: Mapping[str, Sequence[int]]
    epoch: int | None = None


class KafkaGroup(Struct, frozen=True):
    """A group as its coordinator describes it. Epochs are those of consumer groups; the assignor
    of a classic group is its protocol."""

    group_id: str
    group_type: str
    state: str
    assignor: str
    members: tuple[KafkaMember, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None


def list_groups(connection: BlockingConnection) -> dict[str, FoundGroup]:
    """The groups that this broker coordinates, by id."""
    typed = connection.offers(LIST_TYPED_GROUPS)

    def write(writer: Writer) -> None:
        writer.array_length(0)
        if typed:
            writer.array_length(0)
        writer.end()

    def group(reader: Reader) -> FoundGroup:
        group_id, protocol_type, state = reader.string(), reader.string(), reader.string()
        kind = reader.string().lower() if typed else None
        return FoundGroup(group_id, state, protocol_type, kind)

    def read(reader: Reader) -> dict[str, FoundGroup]:
        reader.int32()
        error = reader.int16()
        if error:
            raise KafkaError(f"groups cannot be listed: {error_name(error)}")
        return {found.group_id: found for found in reader.structs(group)}

    return connection.call(LIST_TYPED_GROUPS if typed else LIST_GROUPS, write, read)


def describe_groups(
    connection: BlockingConnection, groups: Sequence[FoundGroup]
) -> dict[str, KafkaGroup]:
    """The groups of the classic and of the consumer protocol among `groups`, by id; a group of
    another type, or that is gone meanwhile, is absent. All are coordinated by this broker."""
    modern = connection.offers(DESCRIBE_CONSUMER_GROUPS)
    consumer = [one.group_id for one in groups if one.group_type == _CONSUMER and modern]
    classic = [one.group_id for one in groups if one.group_type in ("classic", None)]
    found: dict[str, KafkaGroup] = {}
    for start in range(0, len(consumer), ASKED_AT_ONCE):
        found |= _describe_consumer(connection, consumer[start : start + ASKED_AT_ONCE])
    for start in range(0, len(classic), ASKED_AT_ONCE):
        found |= _describe_classic(connection, classic[start : start + ASKED_AT_ONCE])
    return found


def _describe_classic(
    connection: BlockingConnection, group_ids: Sequence[str]
) -> dict[str, KafkaGroup]:
    def member(reader: Reader) -> KafkaMember:
        member_id, instance_id = reader.string(), reader.nullable_string()
        client_id, client_host = reader.string(), reader.string()
        reader.bytes_()  # the subscription
        owned = _assigned(reader.bytes_())
        return KafkaMember(member_id, instance_id, client_id, client_host, owned)

    def group(reader: Reader) -> tuple[int, KafkaGroup]:
        error, group_id, state = reader.int16(), reader.string(), reader.string()
        reader.string()  # the type of its protocols
        protocol = reader.string()
        members = reader.structs(member)
        reader.int32()
        return error, KafkaGroup(group_id, "classic", state, protocol, members)

    return _described(connection, DESCRIBE_GROUPS, group_ids, group)


def _describe_consumer(
    connection: BlockingConnection, group_ids: Sequence[str]
) -> dict[str, KafkaGroup]:
    def topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
        reader.uuid()
        return reader.string(), reader.int32_array()

    def assignment(reader: Reader) -> dict[str, tuple[int, ...]]:
        owned = dict(reader.structs(topic))
        reader.end()
        return owned

    def member(reader: Reader) -> KafkaMember:
        member_id, instance_id = reader.string(), reader.nullable_string()
        reader.nullable_string()  # its rack
        epoch = reader.int32()
        client_id, client_host = reader.string(), reader.string()
        reader.array(Reader.string)
        reader.nullable_string()
        owned = assignment(reader)
        assignment(reader)  # its target
        return KafkaMember(member_id, instance_id, client_id, client_host, owned, epoch)

    def group(reader: Reader) -> tuple[int, KafkaGroup]:
        error = reader.int16()
        reader.nullable_string()
        group_id, state = reader.string(), reader.string()
        epoch, target_epoch, assignor = reader.int32(), reader.int32(), reader.string()
        members = reader.structs(member)
        reader.int32()
        made = KafkaGroup(group_id, _CONSUMER, state, assignor, members, epoch, target_epoch)
        return error, made

    return _described(connection, DESCRIBE_CONSUMER_GROUPS, group_ids, group)


def _described(
    connection: BlockingConnection,
    api: Call,
    group_ids: Sequence[str],
    group: Callable[[Reader], tuple[int, KafkaGroup]],
) -> dict[str, KafkaGroup]:
    def write(writer: Writer) -> None:
        writer.array(group_ids, Writer.string)
        writer.boolean(False)
        writer.end()

    def read(reader: Reader) -> dict[str, KafkaGroup]:
        reader.int32()
        found = {}
        for error, one in reader.structs(group):
            if error not in (0, ErrorCode.GROUP_ID_NOT_FOUND):
                raise KafkaError(f"group {one.group_id}: {error_name(error)}")
            if not error:
                found[one.group_id] = one
        return found

    return connection.call(api, write, read)


def _assigned(data: bytes) -> dict[str, tuple[int, ...]]:
    """Empty where only the group's own clients can read it."""
    try:
        return dict(parse_assignment(data).partitions) if data else {}
    except MalformedSubscription:
        return {}
