"""Checks of the offset APIs before the shard is asked (docs/spec/offsets-and-log.md#2.1).

Each `admit_*` splits a request into what is answered here (denied and unknown topics) and what the
shard must answer. It returns `(request, finish)`:

- `request` goes to the shard. None: nothing is left for the shard, and `finish(None)` is the reply,
  even if another node coordinates the group.
- `finish(reply)` makes the client's reply from the shard's reply. None: the client gets the shard's
  reply as it is, because everything was admitted.

The shard gets topics with their name and with the id that the metadata image has for it. Topics of
an OffsetDelete, and of an OffsetFetch by name, have no id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offsets.refusals import (
    refuse_commit,
    refuse_delete,
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
    commit_topic,
    failed_fetch,
)

Finish = Callable[[Any], Any]
"""The shard's reply (None if it was not asked) -> the client's reply."""

COMMIT_BY_ID_VERSION = 10
TXN_COMMIT_BY_ID_VERSION = 6
FETCH_BY_ID_VERSION = 10


def admit_commit(
    context: RequestContext, request: OffsetCommitRequest, image: MetadataImage
) -> tuple[OffsetCommitRequest | None, Finish | None]:
    """READ on the group is needed, else error 30 for all partitions; then each topic is checked."""
    access = context.access
    if access.restricted and not access.allows(Operation.READ, Resource.GROUP, request.group_id):
        return None, partial(_denied, refuse_commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    by_id = context.api_version >= COMMIT_BY_ID_VERSION
    topics, failures = _admit_topics(context, request.topics, image, by_id=by_id)
    finish = None if failures is None else partial(_merged, OffsetCommitReply, failures)
    if not topics:
        return None, finish or partial(_denied, OffsetCommitReply(()))
    kept = OffsetCommitRequest(
        request.group_id,
        topics,
        request.generation_or_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
    )
    return kept, finish


def admit_txn_commit(
    context: RequestContext, request: TxnOffsetCommitRequest, image: MetadataImage
) -> tuple[TxnOffsetCommitRequest | None, Finish | None]:
    """WRITE on the transactional id is needed, else error 53 for all partitions; READ on the group,
    else error 30; then each topic is checked."""
    version = context.api_version
    code = ErrorCode.NONE
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if code:
        return None, partial(_denied, refuse_txn_commit(request, code, version))
    by_id = version >= TXN_COMMIT_BY_ID_VERSION
    topics, failures = _admit_topics(context, request.topics, image, by_id=by_id)
    finish = None if failures is None else partial(_merged, TxnOffsetCommitReply, failures)
    if not topics:
        return None, finish or partial(_denied, TxnOffsetCommitReply(()))
    return replace(request, topics=topics), finish


def _denied(refusal: Any, _: None) -> Any:
    """A `Finish` for a request that is denied, for which the shard is not asked."""
    return refusal


def _merged(
    make_reply: Callable[[Sequence[TopicErrors]], Any], failures: Failures, reply: Any
) -> Any:
    """A `Finish` that merges what was refused here with the shard's answers for the rest."""
    return make_reply(failures.merged(reply.topics if reply else ()))


def admit_delete(
    context: RequestContext, request: OffsetDeleteRequest, image: MetadataImage
) -> tuple[OffsetDeleteRequest | None, Finish]:
    """DELETE on the group is needed, else error 30 at top level. The shard is asked even if no
    partition is left, since its top-level error replaces all entries."""
    if not context.allows(Operation.DELETE, Resource.GROUP, request.group_id):
        return None, partial(_denied, refuse_delete(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    failures = Failures(by_id=False)
    admitted: list[FetchTopic] = []
    for topic in request.topics:
        if not context.allows(Operation.READ, Resource.TOPIC, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            failures.add(topic.name, NO_TOPIC_ID, topic.partitions, code)
            continue
        good, bad = _split(topic.partitions, image.by_name.get(topic.name))
        if bad:
            failures.add(topic.name, NO_TOPIC_ID, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if good:
            admitted.append(FetchTopic(topic.name, tuple(good)))
    return replace(request, topics=tuple(admitted)), partial(_deleted, failures)


def _deleted(failures: Failures, reply: OffsetDeleteReply) -> OffsetDeleteReply:
    if reply.error:
        return refuse_delete(reply.error)
    return OffsetDeleteReply(topics=failures.merged(reply.topics))


def admit_fetch(
    context: RequestContext, request: OffsetFetchGroup, image: MetadataImage
) -> tuple[OffsetFetchGroup | None, Finish | None]:
    """DESCRIBE on the group is needed, else error 30 for the group. The shard is asked even if no
    topic is left, since its group error replaces the whole answer."""
    version, access = context.api_version, context.access
    group_id = request.group_id
    if access.restricted and not access.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return None, partial(_denied, failed_fetch(request, code))
    if request.topics is None:
        return request, partial(_fetched_all, context, request, image)
    by_id = version >= FETCH_BY_ID_VERSION
    topics, failed = _admit_fetch_topics(context, request.topics, image, by_id=by_id)
    kept = OffsetFetchGroup(
        group_id,
        topics,
        request.member_id,
        request.member_epoch,
        request.require_stable,
    )
    if version >= 2 and not failed:
        return kept, None
    return kept, partial(_fetched, request, failed)


def _fetched(
    request: OffsetFetchGroup, failed: list[FetchedTopic], reply: FetchedGroup
) -> FetchedGroup:
    if reply.error:
        return failed_fetch(request, reply.error)
    return replace(reply, topics=(*reply.topics, *failed)) if failed else reply


def _fetched_all(
    context: RequestContext, request: OffsetFetchGroup, image: MetadataImage, reply: FetchedGroup
) -> FetchedGroup:
    if reply.error:
        return failed_fetch(request, reply.error)
    by_id = context.api_version >= FETCH_BY_ID_VERSION
    return replace(reply, topics=tuple(_visible(context, reply.topics, image, by_id=by_id)))


def _admit_fetch_topics(
    context: RequestContext,
    topics: Sequence[FetchTopic],
    image: MetadataImage,
    *,
    by_id: bool,
) -> tuple[tuple[FetchTopic, ...], list[FetchedTopic]]:
    """The topics that go to the shard, and those that have failed. Topics by name need not exist
    and get no id: a stored offset counts even if the topic has been re-created."""
    admitted: list[FetchTopic] = []
    failed: list[FetchedTopic] = []
    access = context.access
    for topic in topics:
        code = ErrorCode.NONE
        name, topic_id = topic.name, NO_TOPIC_ID
        if by_id:
            known = _by_id(image, topic.topic_id)
            topic_id = topic.topic_id
            name = known.name if known else ""
            if known is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
        asked = access.restricted and not code
        if asked and not access.allows(Operation.DESCRIBE, Resource.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if code:
            offsets = tuple(FetchedOffset(partition, error=code) for partition in topic.partitions)
            failed.append(FetchedTopic(name, offsets, topic_id))
        else:
            admitted.append(FetchTopic(name, topic.partitions, topic_id))
    return tuple(admitted), failed


def _visible(
    context: RequestContext, topics: Sequence[FetchedTopic], image: MetadataImage, *, by_id: bool
) -> Iterable[FetchedTopic]:
    """The topics of a fetch-all that the client sees. Denied topics are left out and, if the
    request is by topic id, those that the current metadata does not have. The id is that of the
    metadata, not that of the record."""
    for topic in topics:
        if not context.sees(Operation.DESCRIBE, Resource.TOPIC, topic.name):
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
) -> tuple[tuple[CommitTopic, ...], Failures | None]:
    """The topics that go to the shard, with name and current id, and the failures, None if there
    are none. For each topic the first match counts: id unknown 100, denied 29, name unknown 3. Then
    partitions that the metadata does not have get 3."""
    failures: Failures | None = None
    admitted: list[CommitTopic] = []
    access = context.access
    for topic in topics:
        known = _by_id(image, topic.topic_id) if by_id else image.by_name.get(topic.name)
        numbers, code = topic.partitions.numbers, ErrorCode.NONE
        name = known.name if known else topic.name
        if by_id and known is None:
            name, code = "", ErrorCode.UNKNOWN_TOPIC_ID
        elif access.restricted and not access.allows(Operation.READ, Resource.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif known and numbers and min(numbers) >= 0 and max(numbers) < known.partitions:
            admitted.append(CommitTopic(name, topic.partitions, known.topic_id))
            continue
        good, bad = ([], numbers) if code else _split(numbers, known)
        if bad or code:
            failures = failures or Failures(by_id=by_id)
            code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            failures.add(name, topic.topic_id if by_id else NO_TOPIC_ID, bad, code)
        if good and known:
            kept = [row for row in topic.partitions if 0 <= row.partition < known.partitions]
            admitted.append(commit_topic(name, kept, known.topic_id))
    return tuple(admitted), failures


def _by_id(image: MetadataImage, topic_id: TopicId) -> TopicImage | None:
    return None if topic_id == NO_TOPIC_ID else image.by_id.get(topic_id)


def _split(
    partitions: Sequence[int], known: TopicImage | None
) -> tuple[Sequence[int], Sequence[int]]:
    """The partitions that the metadata has, and those that it does not have."""
    count = known.partitions if known else 0
    if partitions and min(partitions) >= 0 and max(partitions) < count:
        return partitions, []
    good = [partition for partition in partitions if 0 <= partition < count]
    return good, [partition for partition in partitions if not 0 <= partition < count]


class Failures:
    """The partitions that are answered here, to be merged with the shard's answer: these failures
    come first, with one entry for each topic."""

    __slots__ = ("_by_id", "_failed")

    def __init__(self, *, by_id: bool) -> None:
        self._by_id = by_id
        self._failed: list[TopicErrors] = []

    def add(self, name: str, topic_id: TopicId, partitions: Iterable[int], code: ErrorCode) -> None:
        errors = tuple(PartitionError(partition, code) for partition in partitions)
        self._failed.append(TopicErrors(name, errors, topic_id))

    def merged(self, answered: Sequence[TopicErrors]) -> Sequence[TopicErrors]:
        if not self._failed:
            return answered
        entries: dict[str | TopicId, TopicErrors] = {}
        for topic in (*self._failed, *answered):
            key = topic.topic_id if self._by_id else topic.name
            before = entries.get(key)
            if before is None:
                entries[key] = topic
            else:
                both = (*before.partitions, *topic.partitions)
                entries[key] = replace(before, partitions=both)
        return tuple(entries.values())
