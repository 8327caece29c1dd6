"""The requests about topics, groups and offsets that commands send to brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.moves.plan import Current
from groupd.protocol.consumer_protocol import (
    MalformedSubscription,
    parse_assignment,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId, TopicPartition
from groupd.protocol.messages.cluster import MetadataReply, MetadataRequest
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
)
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchPartition,
    FetchReply,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupd.protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    FindCoordinatorReply,
    FindCoordinatorRequest,
    ListGroupsReply,
    ListGroupsRequest,
)
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchRequest,
    TopicErrors,
    commit_topic,
)
from groupd.protocol.messages.share_group import (
    AlteredShareOffsets,
    AlteredShareTopic,
    AlterShareGroupOffsetsReply,
    AlterShareGroupOffsetsRequest,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedShareOffset,
    DescribeShareGroupOffsetsReply,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeReply,
    ShareGroupDescribeRequest,
    ShareOffsetsGroup,
    ShareOffsetsTopic,
)

_FETCH, _OFFSET_COMMIT, _OFFSET_FETCH = 4, 7, 5
EARLIEST, LATEST = -2, -1
"""Times for `list_offsets`."""


class PartitionMetadata(Struct, frozen=True):
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicMetadata(Struct, frozen=True):
    name: str
    topic_id: TopicId
    internal: bool
    partitions: tuple[PartitionMetadata, ...]


class ClusterMetadata(Struct, frozen=True):
    """A cluster's brokers and topics. `brokers`: node id -> (host, port)."""

    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, TopicMetadata]


def metadata(
    connection: BlockingConnection, topics: Sequence[str] | None, *, strict: bool = True
) -> ClusterMetadata:
    """Returns the cluster's brokers and topics. `topics` None = all. Topics that do not exist are
    absent and are not created. `strict`: raises KafkaError if a topic has another error; otherwise
    such a topic is absent, too."""
    asked = None if topics is None else tuple([(name, NO_TOPIC_ID) for name in topics])
    reply: MetadataReply = connection.call(MetadataRequest(asked, allow_auto_topic_creation=False))
    found = {}
    for topic in reply.topics:
        name = topic.name or ""
        if not topic.error:
            partitions = tuple(
                [
                    PartitionMetadata(number, run.leader, run.replicas, run.isr)
                    for run in topic.partitions
                    for number in range(run.first, run.end)
                ]
            )
            found[name] = TopicMetadata(name, topic.topic_id, topic.internal, partitions)
        elif strict and topic.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(f"topic {name}: {topic.error.name}")
    return ClusterMetadata({node.node_id: (node.host, node.port) for node in reply.nodes}, found)


def find_coordinator(connection: BlockingConnection, group_id: str) -> tuple[str, int]:
    """Returns the host and port of the group's coordinator."""
    reply: FindCoordinatorReply = connection.call(FindCoordinatorRequest((group_id,)))
    (found,) = reply.coordinators
    if found.error:
        raise KafkaError(f"no coordinator of group {group_id}: {found.error.name}")
    return found.host, found.port


def list_offsets(
    connection: BlockingConnection, places: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Returns offsets by partition. `timestamp`: EARLIEST, LATEST, or a time in ms for the first
    record of that time or later (-1 if there is none). Partitions that fail are absent."""
    topics = [
        ListOffsetsTopic(name, tuple([ListOffsetsPartition(one, timestamp) for one in numbers]))
        for name, numbers in _by_topic(places)
    ]
    reply: ListOffsetsReply = connection.call(ListOffsetsRequest(tuple(topics)))
    return {
        (topic.name, one.partition): one.offset
        for topic in reply.topics
        for one in topic.partitions
        if not one.error
    }


def fetch(
    connection: BlockingConnection, topic: str, partition: int, offset: int, max_bytes: int
) -> bytes:
    """Returns batches, beginning with the one that holds `offset`. The last one may be cut off."""
    asked = FetchDataTopic(topic, NO_TOPIC_ID, (FetchPartition(partition, offset, max_bytes),))
    request = FetchRequest((asked,), max_wait_ms=1000, max_bytes=max_bytes)
    reply: FetchReply = connection.call(request, _FETCH)
    (found,) = reply.topics[0].partitions
    if found.error:
        raise KafkaError(f"{topic}-{partition} cannot be read: {found.error.name}")
    return bytes(found.records)


def commit_offsets(
    connection: BlockingConnection, group_id: str, offsets: Mapping[TopicPartition, Current]
) -> dict[TopicPartition, ErrorCode]:
    """Commits as an administrator does: without a member, generation -1. Returns an error code for
    each partition."""

    def partition(place: TopicPartition) -> CommitPartition:
        wanted = offsets[place]
        return CommitPartition(place[1], wanted.offset, wanted.leader_epoch, wanted.metadata)

    topics = [
        commit_topic(name, tuple([partition((name, one)) for one in numbers]))
        for name, numbers in _by_topic(offsets)
    ]
    request = OffsetCommitRequest(group_id, tuple(topics))
    reply: OffsetCommitReply = connection.call(request, _OFFSET_COMMIT)
    return _errors(reply.topics)


def fetch_offsets(connection: BlockingConnection, group_id: str) -> dict[TopicPartition, Current]:
    """Returns everything that the group has committed, by partition."""
    request = OffsetFetchRequest((OffsetFetchGroup(group_id, None),))
    reply: OffsetFetchReply = connection.call(request, _OFFSET_FETCH)
    (group,) = reply.groups
    error = group.error
    found = {}
    for topic in group.topics:
        for one in topic.partitions:
            error = error or one.error
            current = Current(one.offset, one.leader_epoch, one.metadata or "")
            found[topic.name, one.partition] = current
    if error:
        raise KafkaError(f"offsets of {group_id} cannot be read: {error.name}")
    return found


def delete_offsets(
    connection: BlockingConnection, group_id: str, places: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Deletes the offsets. Returns an error code for each partition."""
    topics = [FetchTopic(name, tuple(numbers)) for name, numbers in _by_topic(places)]
    reply: OffsetDeleteReply = connection.call(OffsetDeleteRequest(group_id, tuple(topics)))
    return dict.fromkeys(places, reply.error) if reply.error else _errors(reply.topics)


def share_offsets(
    connection: BlockingConnection,
    group_id: str,
    places: Collection[TopicPartition] | None = None,
) -> dict[TopicPartition, DescribedShareOffset]:
    """Returns the start offsets of a share group, with their lag. `places` None: of all its
    partitions. Partitions whose start offset is not known are absent: those from which nothing was
    acknowledged yet, and those that have an error."""
    topics = None
    if places is not None:
        named = [ShareOffsetsTopic(name, tuple(numbers)) for name, numbers in _by_topic(places)]
        topics = tuple(named)
    request = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(group_id, topics),))
    reply: DescribeShareGroupOffsetsReply = connection.call(request)
    (group,) = reply.groups
    if group.error:
        raise KafkaError(f"start offsets of {group_id} cannot be read: {group.error.name}")
    return {
        (topic.name, one.partition): one
        for topic in group.topics
        for one in topic.partitions
        if not one.error and one.start_offset >= 0
    }


def alter_share_offsets(
    connection: BlockingConnection, group_id: str, offsets: Mapping[TopicPartition, Current]
) -> dict[TopicPartition, ErrorCode]:
    """Gives partitions of a share group, which is created if need be, new start offsets. Returns an
    error code for each partition."""
    topics = [
        AlteredShareTopic(name, tuple([(one, offsets[name, one].offset) for one in numbers]))
        for name, numbers in _by_topic(offsets)
    ]
    request = AlterShareGroupOffsetsRequest(group_id, tuple(topics))
    reply: AlterShareGroupOffsetsReply = connection.call(request)
    return dict.fromkeys(offsets, reply.error) if reply.error else _errors(reply.topics)


def _by_topic(places: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for name, number in places:
        found.setdefault(name, []).append(number)
    return found.items()


def _errors(
    topics: Iterable[TopicErrors | AlteredShareOffsets],
) -> dict[TopicPartition, ErrorCode]:
    return {(topic.name, one.partition): one.error for topic in topics for one in topic.partitions}


GROUPS_PER_REQUEST = 100
"""The most groups that one request describes."""
_CLASSIC, _CONSUMER, _SHARE = "classic", "consumer", "share"


class FoundGroup(Struct, frozen=True):
    """`group_type`: "classic", "consumer" or another of Kafka's types; None if the broker does not
    tell it, as brokers before Kafka 3.8."""

    group_id: str
    state: str
    protocol_type: str
    group_type: str | None


class KafkaMember(Struct, frozen=True):
    """A member as a broker describes it. `owned`: its partitions by topic. `epoch`: None for a
    member of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    owned: Mapping[str, Sequence[int]]
    epoch: int | None = None


class KafkaGroup(Struct, frozen=True):
    """A group as its coordinator describes it. Classic groups have no epochs. The assignor of a
    classic group is its protocol."""

    group_id: str
    group_type: str
    state: str
    assignor: str
    members: tuple[KafkaMember, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None


def list_groups(connection: BlockingConnection) -> dict[str, FoundGroup]:
    """Returns the groups that this broker coordinates, by id."""
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
    """Describes the classic, consumer and share groups among `groups`, by id. Groups of other
    types, and groups that were deleted meanwhile, are absent. This broker must coordinate all of
    them."""
    consumer = [one.group_id for one in groups if one.group_type == _CONSUMER]
    share = [one.group_id for one in groups if one.group_type == _SHARE]
    classic = [one.group_id for one in groups if one.group_type in (_CLASSIC, None)]
    return {
        **_described(connection, ConsumerGroupDescribeRequest, consumer, _epoch_group),
        **_described(connection, ShareGroupDescribeRequest, share, _epoch_group),
        **_described(connection, DescribeGroupsRequest, classic, _classic_group),
    }


def _described(
    connection: BlockingConnection,
    request: Callable[[tuple[str, ...]], object],
    group_ids: Sequence[str],
    made_of: Callable[[Any], KafkaGroup],
) -> dict[str, KafkaGroup]:
    found = {}
    for start in range(0, len(group_ids), GROUPS_PER_REQUEST):
        reply: DescribeGroupsReply | ConsumerGroupDescribeReply | ShareGroupDescribeReply
        reply = connection.call(request(tuple(group_ids[start : start + GROUPS_PER_REQUEST])))
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


def _epoch_group(group: DescribedConsumerGroup | DescribedShareGroup) -> KafkaGroup:
    members = [
        KafkaMember(
            one.member_id,
            None if isinstance(one, DescribedShareMember) else one.instance_id,
            one.client_id,
            one.client_host,
            {topic.topic_name: topic.partitions for topic in one.assignment},
            one.member_epoch,
        )
        for one in group.members
    ]
    return KafkaGroup(
        group.group_id,
        _SHARE if isinstance(group, DescribedShareGroup) else _CONSUMER,
        group.state,
        group.assignor_name,
        tuple(members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _assigned(data: bytes) -> dict[str, tuple[int, ...]]:
    """The partitions of an assignment; none if only the group's clients understand its format."""
    try:
        return dict(parse_assignment(data).partitions) if data else {}
    except MalformedSubscription:
        return {}
