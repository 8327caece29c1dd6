"""OffsetCommit and TxnOffsetCommit: checks, then one record per partition
(docs/spec/offsets-and-log.md#3.1 and #3.4).

Rules: a group error refuses every partition and nothing is written; metadata that is too long only
refuses its own partition. The front end has already resolved names to ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import compress, repeat
from operator import not_

from groupd.coordinator.core.group import Group, OffsetOwner
from groupd.coordinator.core.offsets.refusals import refuse_commit, refuse_txn_commit
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.offsets import (
    CommitRows,
    CommitTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    PartitionError,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)
from groupd.protocol.records.commit_records import CommitRecords, TopicCommits

_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE

# Which groups have committed offsets, and the group's own check before offsets are committed
# (docs/spec/offsets-and-log.md#3).


def owner_of(group: Group | None) -> OffsetOwner:
    """The group as owner of committed offsets. Raises GROUP_ID_NOT_FOUND if there is no group, or
    its type has no committed offsets."""
    owner = None if group is None else group.offset_owner
    if owner is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    return owner


_FIRST_VERSION_WITH_EPOCHS = 9
_FIRST_TXN_VERSION_WITH_EPOCHS = 6


def commit_offsets(
    state: ShardState, context: RequestContext, request: OffsetCommitRequest, now: Instant
) -> Outcome:
    """Answers with an OffsetCommitReply, gated by the group."""
    token = context.token
    try:
        group = _group_of(
            state,
            request,
            epochs_known=context.api_version >= _FIRST_VERSION_WITH_EPOCHS,
        )
        too_long = _too_long(request.topics, state.config.offset_metadata_max_bytes)
        _check(group, request, context.api_version, too_long, transactional=False)
    except ApiError as error:
        reply = refuse_commit(request, error.code)
        return Outcome(replies=[(token, reply)], gate=request.group_id)
    expire_at = -1
    if request.retention_time_ms != -1:
        expire_at = now.wall_ms + request.retention_time_ms
    commits, results = _committed(request, too_long, now, expire_at)
    group.on_offset_commit(request.member_id, request.group_instance_id, now, state.deadlines)
    return Outcome(
        commits=commits,
        replies=[(token, OffsetCommitReply(results))],
        gate=request.group_id,
        events=[] if commits is None else [_event(group, request, {"count": commits.count})],
    )


def commit_txn_offsets(
    state: ShardState, context: RequestContext, request: TxnOffsetCommitRequest, now: Instant
) -> Outcome:
    """Answers with a TxnOffsetCommitReply, gated by the group. The records go into a transactional
    batch of the request's producer. The transaction itself has been verified before
    (docs/spec/offsets-and-log.md#3.4)."""
    token, version = context.token, context.api_version
    epochs_known = version >= _FIRST_TXN_VERSION_WITH_EPOCHS
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = _group_of(state, request, epochs_known=epochs_known)
        too_long = _too_long(request.topics, state.config.offset_metadata_max_bytes)
        _check(group, request, version, too_long, transactional=True)
    except ApiError as error:
        code = error.code
        if code is ErrorCode.STALE_MEMBER_EPOCH and not epochs_known:
            code = ErrorCode.ILLEGAL_GENERATION
        reply = refuse_txn_commit(request, code, version)
        return Outcome(replies=[(token, reply)], gate=request.group_id)
    commits, results = _committed(request, too_long, now, expire_at=-1)
    events = []
    if commits is not None:
        events.append(_event(group, request, {"count": commits.count, "transactional": True}))
    return Outcome(
        commits=commits,
        replies=[(token, TxnOffsetCommitReply(results))],
        gate=request.group_id,
        events=events,
        transaction=(request.producer_id, request.producer_epoch),
    )


CommitRequest = OffsetCommitRequest | TxnOffsetCommitRequest


def _group_of(state: ShardState, request: CommitRequest, *, epochs_known: bool) -> OffsetOwner:
    """The group of a commit. An unknown group is the simple group that its first record will make.

    Raises GROUP_ID_NOT_FOUND for a group without committed offsets, and for an unknown group if the
    request has a generation or epoch (ILLEGAL_GENERATION unless `epochs_known`). Raises
    GROUP_MAX_SIZE_REACHED if there may be no more groups.
    """
    group = state.groups.get(request.group_id)
    if group is None and request.generation_or_epoch >= 0:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND if epochs_known else ErrorCode.ILLEGAL_GENERATION
        )
    if group is None:
        state.check_group_limit()
        return state.simple_group(request.group_id)
    return owner_of(group)


def _check(
    group: OffsetOwner,
    request: CommitRequest,
    api_version: int,
    too_long: Set[tuple[str, int]],
    *,
    transactional: bool,
) -> None:
    """Asks the group whether the commit is allowed. Raises ApiError."""
    group.check_offset_commit(
        request.member_id,
        request.group_instance_id,
        request.generation_or_epoch,
        request.topics,
        api_version=api_version,
        transactional=transactional,
        too_long=too_long,
    )


def _is_too_long(metadata: str, units_max: int) -> bool:
    """Whether the metadata is longer than the limit in UTF-16 code units."""
    if 2 * len(metadata) <= units_max:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * units_max


def _too_long(topics: Sequence[CommitTopic], units_max: int) -> set[tuple[str, int]]:
    """(topic, partition) of the entries whose metadata is too long."""
    found = set()
    for topic in topics:
        rows = topic.partitions
        if any(rows.metadata):
            for number, metadata in zip(rows.numbers, rows.metadata, strict=True):
                if metadata and _is_too_long(metadata, units_max):
                    found.add((topic.name, number))
    return found


def _committed(
    request: CommitRequest, too_long: set[tuple[str, int]], now: Instant, expire_at: int
) -> tuple[CommitRecords | None, tuple[TopicErrors, ...]]:
    """The records, None if all entries are refused, and the results."""
    # A record with an expire time is written as version 1, which has neither leader epoch nor topic
    # id. They are left out here, so that memory is what a load would read.
    expires = expire_at != -1
    count, bare, topics, results = 0, not expires, [], []
    for topic in request.topics:
        rows, name, topic_id = topic.partitions, topic.name, topic.topic_id
        codes: Iterable[ErrorCode] = repeat(ErrorCode.NONE)
        if too_long:
            refused = [(name, number) in too_long for number in rows.numbers]
            codes = [_TOO_LARGE if refuse else ErrorCode.NONE for refuse in refused]
        results.append(TopicErrors(name, tuple(map(PartitionError, rows.numbers, codes)), topic_id))
        if too_long:
            rows = CommitRows.of(list(compress(rows, map(not_, refused))))
        numbers, metadata = rows.numbers, None
        count += len(numbers)
        if any(rows.metadata):
            metadata, bare = [text or "" for text in rows.metadata], False
        topics.append(
            TopicCommits(
                name,
                NO_TOPIC_ID if expires else topic_id,
                numbers,
                rows.offsets,
                (-1,) * len(numbers) if expires else rows.leader_epochs,
                metadata,
            )
        )
    if not count:
        return None, tuple(results)
    commits = CommitRecords(request.group_id, now.wall_ms, expire_at, topics, count, bare)
    return commits, tuple(results)


def _event(group: OffsetOwner, request: CommitRequest, details: dict[str, object]) -> Event:
    return Event(
        group.type_name,
        EventKind.OFFSETS_COMMITTED,
        request.group_id,
        request.member_id,
        request.generation_or_epoch,
        "",
        details,
    )
