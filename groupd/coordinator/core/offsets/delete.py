"""OffsetDelete, and the offsets' part of DeleteGroups (docs/spec/offsets-and-log.md#3.3)."""

from __future__ import annotations

from itertools import islice

from groupd.coordinator.core.offsets.commit import owner_of
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.offsets import (
    OffsetDeleteReply,
    OffsetDeleteRequest,
    PartitionError,
    TopicErrors,
)
from groupd.protocol.records.schema import OffsetCommitKey, Record


def tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group_id, topic, partition))


def all_tombstones(store: OffsetStore, group_id: str) -> list[Record]:
    """Tombstones of all offsets of a group, sorted: first of committed offsets, then of those that
    are only pending."""
    topics = store.topics(group_id)
    committed = [
        (topic, partition) for topic in sorted(topics) for partition in sorted(topics[topic])
    ]
    pending_only = sorted(set(store.pending(group_id)).difference(committed))
    return [tombstone(group_id, *place) for place in committed + pending_only]


def some_tombstones(store: OffsetStore, group_id: str, at_most: int) -> list[Record]:
    """Tombstones of at most `at_most` committed offsets of a group."""
    places = (
        (topic, partition)
        for topic, partitions in store.topics(group_id).items()
        for partition in partitions
    )
    return [tombstone(group_id, *place) for place in islice(places, at_most)]


def delete_offsets(
    state: ShardState, store: OffsetStore, context: RequestContext, request: OffsetDeleteRequest
) -> Outcome:
    """Answers with an OffsetDeleteReply. Partitions of subscribed topics get
    GROUP_SUBSCRIBED_TO_TOPIC. All others succeed, with a tombstone if there is something to
    delete."""
    group_id = request.group_id
    try:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = owner_of(state.groups.get(group_id))
        group.check_offset_delete()
    except ApiError as error:
        reply = OffsetDeleteReply(error.code)
        return Outcome(replies=[(context.token, reply)], gate=group_id)
    to_delete: dict[TopicPartition, None] = {}
    results: list[TopicErrors] = []
    for topic in request.topics:
        code = ErrorCode.NONE
        if group.is_subscribed_to(topic.name):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            to_delete.update(
                ((topic.name, partition), None)
                for partition in topic.partitions
                if store.get(group_id, topic.name, partition) is not None
                or store.is_pending(group_id, topic.name, partition)
            )
        errors = tuple([PartitionError(partition, code) for partition in topic.partitions])
        results.append(TopicErrors(topic.name, errors, topic.topic_id))
    records = [tombstone(group_id, *place) for place in to_delete]
    events = []
    if records:
        details = {"count": len(records)}
        events = [Event(group.type_name, EventKind.OFFSETS_DELETED, group_id, details=details)]
    return Outcome(
        records=records,
        replies=[(context.token, OffsetDeleteReply(topics=tuple(results)))],
        gate=group_id,
        events=events,
    )
