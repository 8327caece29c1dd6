"""Checks of the offset APIs in front of the shard (offsets spec, section 2.1).

Each `admit_*` splits a request into what is answered here and what the shard must answer. It
returns `(request, finish)`: send `request` to the shard and pass the shard's reply through
`finish`; if `request` is None nothing is left for the shard and `finish(None)` is the answer,
whoever coordinates the group. Topics reach the shard with the name and, except for OffsetFetch
and OffsetDelete by name, the id that the metadata image gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offsets.refusals import (
    refuse_commit,
    refuse_delete,
    refuse_fetch,
    refuse_txn_commit,
)
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.offsets import (
    CommitTopic,
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    FetchTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    PartitionError,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)

Reply = TypeVar("Reply")
Finish = Callable[[Reply | None], Reply]
"""The shard's reply, None if it was not asked -> the client's reply."""

COMMIT_BY_ID_VERSION = 10
TXN_COMMIT_BY_ID_VERSION = 6
FETCH_BY_ID_VERSION = 10


def admit_commit(
    context: RequestContext, request: OffsetCommitRequest, image: MetadataImage
) -> tuple[OffsetCommitRequest | None, Finish[OffsetCommitReply]]:
    """READ on the group, else 30 on all partitions; then topic by topic."""
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        refusal = refuse_commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return None, lambda reply: refusal
    by_id = context.api_version >= COMMIT_BY_ID_VERSION
    topics, local = _admit_topics(context, request.topics, image, by_id=by_id)

    def finish(reply: OffsetCommitReply | None) -> OffsetCommitReply:
        return OffsetCommitReply(local.merged(reply.topics if reply else ()))

    if not topics:
        return None, finish
    kept = OffsetCommitRequest(
        request.group_id,
        topics,
        request.generation_or_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
    )
    return kept, as_answered if len(topics) == len(request.topics) and local.none else finish


def as_answered(reply: Reply | None) -> Reply:
    """A `Finish`: the shard was asked for everything, its reply is the client's."""
    assert reply is not None
    return reply


def admit_txn_commit(
    context: RequestContext, request: TxnOffsetCommitRequest, image: MetadataImage
) -> tuple[TxnOffsetCommitRequest | None, Finish[TxnOffsetCommitReply]]:
    """WRITE on the transactional id, else 53 on all partitions; READ on the group, else 30; then
    topic by topic."""
    version = context.api_version
    denied = ErrorCode.NONE
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if denied:
        refusal = refuse_txn_commit(request, denied, version)
        return None, lambda reply: refusal
    by_id = version >= TXN_COMMIT_BY_ID_VERSION
    topics, local = _admit_topics(context, request.topics, image, by_id=by_id)

    def finish(reply: TxnOffsetCommitReply | None) -> TxnOffsetCommitReply:
        return TxnOffsetCommitReply(local.merged(reply.topics if reply else ()))

    return (replace(request, topics=topics) if topics else None), finish


def admit_delete(
    context: RequestContext, request: OffsetDeleteRequest, image: MetadataImage
) -> tuple[OffsetDeleteRequest | None, Finish[OffsetDeleteReply]]:
    """DELETE on the group, else top-level 30. The shard is asked even if no partition is left,
    and its top-level error discards all entries."""
    if not context.allows(Operation.DELETE, Resource.GROUP, request.group_id):
        refusal = refuse_delete(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return None, lambda reply: refusal
    local = _LocalFailures(by_id=False)
    admitted: list[FetchTopic] = []
    for topic in request.topics:
        if not context.allows(Operation.READ, Resource.TOPIC, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            local.add(topic.name, NO_TOPIC_ID, topic.partitions, code)
            continue
        known = image.by_name.get(topic.name)
        good, bad = _split(topic.partitions, known)
        if bad:
            local.add(topic.name, NO_TOPIC_ID, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if good:
            admitted.append(FetchTopic(topic.name, tuple(good)))

    def finish(reply: OffsetDeleteReply | None) -> OffsetDeleteReply:
        if reply is None or reply.error:
            return refuse_delete(reply.error if reply else ErrorCode.NONE)
        return OffsetDeleteReply(topics=local.merged(reply.topics))

    return replace(request, topics=tuple(admitted)), finish


def admit_fetch(
    context: RequestContext, request: OffsetFetchGroup, image: MetadataImage
) -> tuple[OffsetFetchGroup | None, Finish[FetchedGroup]]:
    """DESCRIBE on the group, else 30 for the group. The shard is asked even if no topic is left;
    its group error replaces the whole answer."""
    version = context.api_version
    if not context.allows(Operation.DESCRIBE, Resource.GROUP, request.group_id):
        refusal = refuse_fetch(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, version)
        return None, lambda reply: refusal
    by_id = version >= FETCH_BY_ID_VERSION
    failed: list[FetchedTopic] = []
    admitted: OffsetFetchGroup = request
    if request.topics is not None:
        topics = tuple(_admit_fetch_topics(context, request.topics, image, failed, by_id=by_id))
        admitted = OffsetFetchGroup(
            request.group_id,
            topics,
            request.member_id,
            request.member_epoch,
            request.require_stable,
        )

    def finish(reply: FetchedGroup | None) -> FetchedGroup:
        if reply is None or reply.error:
            code = reply.error if reply else ErrorCode.NONE
            return refuse_fetch(request, code, version)
        if request.topics is None:
            return replace(reply, topics=tuple(_visible(context, reply.topics, image, by_id=by_id)))
        return replace(reply, topics=(*reply.topics, *failed)) if failed else reply

    return admitted, finish


def _admit_fetch_topics(
    context: RequestContext,
    topics: Sequence[FetchTopic],
    image: MetadataImage,
    failed: list[FetchedTopic],
    *,
    by_id: bool,
) -> Iterable[FetchTopic]:
    """Topics by name need not exist, and stay without id: a stored offset counts even if the
    topic has been re-created."""
    for topic in topics:
        code = ErrorCode.NONE
        name, topic_id = topic.name, NO_TOPIC_ID
        if by_id:
            known = _by_id(image, topic.topic_id)
            topic_id = topic.topic_id
            name = known.name if known else ""
            if known is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
        if not code and not context.allows(Operation.DESCRIBE, Resource.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if code:
            offsets = tuple(FetchedOffset(partition, error=code) for partition in topic.partitions)
            failed.append(FetchedTopic(name, offsets, topic_id))
        else:
            yield FetchTopic(name, topic.partitions, topic_id)


def _visible(
    context: RequestContext, topics: Sequence[FetchedTopic], image: MetadataImage, *, by_id: bool
) -> Iterable[FetchedTopic]:
    """A fetch-all leaves out denied topics and, where topics go by id, those without one in the
    current metadata (whatever id the record has)."""
    for topic in topics:
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name):
            continue
        if not by_id:
            yield topic
        elif (known := image.by_name.get(topic.name)) is not None:
            yield replace(topic, topic_id=known.topic_id)


def _admit_topics(
    context: RequestContext,
    topics: Sequence[CommitTopic],
    image: MetadataImage,
    *,
    by_id: bool,
) -> tuple[tuple[CommitTopic, ...], _LocalFailures]:
    """Per topic, first match: id unknown 100, denied 29, name unknown 3; then partitions absent
    from the metadata 3. The rest goes on with name and current id."""
    local = _LocalFailures(by_id=by_id)
    admitted: list[CommitTopic] = []
    for topic in topics:
        known = _by_id(image, topic.topic_id) if by_id else image.by_name.get(topic.name)
        topic_id = topic.topic_id if by_id else NO_TOPIC_ID
        partitions = [entry.partition for entry in topic.partitions]
        if by_id and known is None:
            local.add("", topic_id, partitions, ErrorCode.UNKNOWN_TOPIC_ID)
            continue
        name = known.name if known else topic.name
        if not context.allows(Operation.READ, Resource.TOPIC, name):
            local.add(name, topic_id, partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        good, bad = _split(partitions, known)
        if bad:
            local.add(name, topic_id, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if good and known:
            kept = topic.partitions
            if bad:
                kept = tuple(entry for entry in kept if 0 <= entry.partition < known.partitions)
            admitted.append(CommitTopic(known.name, kept, known.topic_id))
    return tuple(admitted), local


def _by_id(image: MetadataImage, topic_id: TopicId) -> TopicImage | None:
    return None if topic_id == NO_TOPIC_ID else image.by_id.get(topic_id)


def _split(partitions: Sequence[int], known: TopicImage | None) -> tuple[list[int], list[int]]:
    """(present, absent) in the metadata."""
    count = known.partitions if known else 0
    if partitions and min(partitions) >= 0 and max(partitions) < count:
        return list(partitions), []
    good = [partition for partition in partitions if 0 <= partition < count]
    return good, [partition for partition in partitions if not 0 <= partition < count]


class _LocalFailures:
    """Partitions answered here, to be merged with the shard's answer: local failures first, one
    entry per topic."""

    __slots__ = ("_by_id", "_failed")

    def __init__(self, *, by_id: bool) -> None:
        self._by_id = by_id
        self._failed: list[TopicErrors] = []

    def add(self, name: str, topic_id: TopicId, partitions: Iterable[int], code: ErrorCode) -> None:
        errors = tuple(PartitionError(partition, code) for partition in partitions)
        self._failed.append(TopicErrors(name, errors, topic_id))

    @property
    def none(self) -> bool:
        return not self._failed

    def merged(self, answered: tuple[TopicErrors, ...]) -> tuple[TopicErrors, ...]:
        if not self._failed:
            return answered
        entries: dict[str | TopicId, TopicErrors] = {}
        for topic in (*self._failed, *answered):
            key = topic.topic_id if self._by_id else topic.name
            before = entries.get(key)
            if before is None:
                entries[key] = topic
            else:
                entries[key] = replace(before, partitions=before.partitions + topic.partitions)
        return tuple(entries.values())
