"""Translates between consumer groups, which know topics by id, and the bytes that members on the
classic protocol send and expect: "consumer" subscriptions and assignments, which have topic
names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupd.coordinator.core.assignors.api import Assignment as Target
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.protocol.consumer_protocol import (
    EmbeddedAssignment,
    EmbeddedSubscription,
    MalformedSubscription,
    TopicList,
    encode_assignment,
    parse_assignment,
    parse_subscription,
)
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.classic_group import JoinProtocol
from groupd.protocol.messages.consumer_group import TopicPartitions
from groupd.protocol.records.schema import ClassicMemberMetadata, ClassicProtocol


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[JoinProtocol]
) -> ClassicMemberMetadata:
    """What a type-5 record keeps of a member on the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms, tuple(ClassicProtocol(one.name, one.metadata) for one in protocols)
    )


def join_protocols(metadata: ClassicMemberMetadata) -> tuple[JoinProtocol, ...]:
    """The protocols of a member in the form of classic groups, from what its type-5 record
    keeps."""
    return tuple(JoinProtocol(one.name, one.metadata) for one in metadata.supported_protocols)


def subscription_of(protocols: Iterable[JoinProtocol | ClassicProtocol]) -> EmbeddedSubscription:
    """The subscription of a member: that of its first protocol, because all protocols have the same
    one. Raises MalformedSubscription, also if there is no protocol."""
    for protocol in protocols:
        return parse_subscription(protocol.metadata)
    raise MalformedSubscription("no protocol is offered")


def owned_partitions(
    subscription: EmbeddedSubscription, image: MetadataImage
) -> tuple[TopicPartitions, ...]:
    """What the member reports as its own (`claim_of`), in the form of a request."""
    owned = claim_of(subscription, image)
    return tuple(TopicPartitions(topic_id, owned[topic_id]) for topic_id in sorted(owned))


def claim_of(subscription: EmbeddedSubscription, image: MetadataImage) -> Target:
    """What the member reports as its own; topics that do not exist are left out."""
    return _by_topic_id(subscription.owned_partitions, image)


def target_of(assignment: bytes, image: MetadataImage) -> tuple[Target, bool]:
    """The partitions of an assignment, and whether it has data of a client-side assignor, which a
    consumer group would lose. Topics that do not exist are left out. Raises
    MalformedSubscription."""
    parsed = parse_assignment(assignment)
    return _by_topic_id(parsed.partitions, image), bool(parsed.user_data)


def assignment_bytes(
    partitions: Mapping[TopicId, Iterable[int]], version: int, image: MetadataImage
) -> bytes:
    """An assignment as bytes, as `target_of` reads them, with topics ascending by name. Topics that
    do not exist are left out."""
    named = sorted(
        (image.by_id[topic_id].name, tuple(sorted(numbers)))
        for topic_id, numbers in partitions.items()
        if topic_id in image.by_id
    )
    return encode_assignment(EmbeddedAssignment(version, tuple(named)))


def _by_topic_id(topics: TopicList, image: MetadataImage) -> dict[TopicId, tuple[int, ...]]:
    found: dict[TopicId, set[int]] = {}
    for name, partitions in topics:
        topic = image.by_name.get(name)
        if topic is not None and partitions:
            found.setdefault(topic.topic_id, set()).update(partitions)
    return {topic_id: tuple(sorted(found[topic_id])) for topic_id in sorted(found)}
