"""The requests about groups and their members that the command line makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.core.classic_group.subscription import (
    MalformedSubscription,
    parse_assignment,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
)
from groupd.protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    ListGroupsReply,
    ListGroupsRequest,
)

ASKED_AT_ONCE = 100
"""The most groups in one request."""
_CLASSIC, _CONSUMER = "classic", "consumer"


class FoundGroup(Struct, frozen=True):
    """`group_type`: "classic", "consumer" or another type of Kafka; None if the broker does not
    tell, as before Kafka 3.8."""

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
    reply: ListGroupsReply = connection.call(ListGroupsRequest())
    if reply.error:
        raise KafkaError(f"groups cannot be listed: {reply.error.name}")
    return {
        one.group_id: FoundGroup(
            one.group_id, one.state, one.protocol_type, one.group_type.lower() or None
        )
        for one in reply.groups
    }


def describe_groups(
    connection: BlockingConnection, groups: Sequence[FoundGroup]
) -> dict[str, KafkaGroup]:
    """The groups of the classic and of the consumer protocol among `groups`, by id; a group of
    another type, or that is gone meanwhile, is absent. All are coordinated by this broker."""
    consumer = [one.group_id for one in groups if one.group_type == _CONSUMER]
    classic = [one.group_id for one in groups if one.group_type in (_CLASSIC, None)]
    return {
        **_described(connection, ConsumerGroupDescribeRequest, consumer, _consumer_group),
        **_described(connection, DescribeGroupsRequest, classic, _classic_group),
    }


def _described(
    connection: BlockingConnection,
    request: Callable[[tuple[str, ...]], object],
    group_ids: Sequence[str],
    made_of: Callable[[Any], KafkaGroup],
) -> dict[str, KafkaGroup]:
    found = {}
    for start in range(0, len(group_ids), ASKED_AT_ONCE):
        reply: DescribeGroupsReply | ConsumerGroupDescribeReply = connection.call(
            request(tuple(group_ids[start : start + ASKED_AT_ONCE]))
        )
        for one in reply.groups:
            if one.error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                raise KafkaError(f"group {one.group_id}: {one.error.name}")
            if not one.error:
                found[one.group_id] = made_of(one)
    return found


def _classic_group(group: DescribedGroup) -> KafkaGroup:
    members = [
        KafkaMember(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host,
            _assigned(one.assignment),
        )
        for one in group.members
    ]
    return KafkaGroup(group.group_id, _CLASSIC, group.state, group.protocol_data, tuple(members))


def _consumer_group(group: DescribedConsumerGroup) -> KafkaGroup:
    members = [
        KafkaMember(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            {topic.topic_name: topic.partitions for topic in one.assignment},
            one.member_epoch,
        )
        for one in group.members
    ]
    return KafkaGroup(
        group.group_id,
        _CONSUMER,
        group.state,
        group.assignor_name,
        tuple(members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _assigned(data: bytes) -> dict[str, tuple[int, ...]]:
    """Empty where only the group's own clients can read it."""
    try:
        return dict(parse_assignment(data).partitions) if data else {}
    except MalformedSubscription:
        return {}
