"""What administrators do with the start offsets of a share group: AlterShareGroupOffsets (91),
DeleteShareGroupOffsets (92), and the deletion of the whole group (docs/spec/share-group.md#2.5).

The offsets are with the share coordinator. So each of these writes down what is to be done, asks
the share coordinator, and writes down that it is done. A state has no owner there, so two questions
about a group must not overtake each other: while one of these waits for its answer, the group's
requests are refused (`ShardState.busy`), and none of these begins while a heartbeat's question is
unanswered. Clients try again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.share_group import events, initialization, records
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.share_group.initialization import SHARE_STATE, Initialization
from groupd.coordinator.core.share_group.lookup import existing_group, joined_group
from groupd.coordinator.core.share_group.soft_state import soft_of
from groupd.coordinator.core.share_group.state_partitions import (
    NO_STATE_PARTITIONS,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome, OutsideCall, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_group import (
    AlteredShareOffsets,
    AlterShareGroupOffsetsReply,
    AlterShareGroupOffsetsRequest,
    DeletedShareOffsets,
    DeleteShareGroupOffsetsReply,
    DeleteShareGroupOffsetsRequest,
    ShareOffsetResult,
)
from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    ShareStateReply,
    ShareStateTopic,
)
from groupd.protocol.records.schema import Record

SHARE_STATE_DELETION = "share-state-deletion"
"""Who deletes the state of share-partitions before their group is deleted. The request is a
`DeleteShareGroupStateRequest`, the answer the first ErrorCode of the share coordinator."""

_NOT_FOUND = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NO_SUCH_PARTITION = "This server does not host this topic-partition."


class Alteration(Struct, frozen=True):
    """The data of the call of an AlterShareGroupOffsets. `topics`: its reply if all goes well."""

    topics: tuple[AlteredShareOffsets, ...]


class OffsetDeletion(Struct, frozen=True):
    """The data of the call of a DeleteShareGroupOffsets. `refused`: the topics of its reply that
    are not deleted; `names`: those that are, by id."""

    refused: tuple[DeletedShareOffsets, ...]
    names: dict[TopicId, str]


def _check_free(state: ShardState, group: ShareGroup) -> None:
    """Raises ApiError if start offsets of the group may not be changed now."""
    group.check_delete()
    if group.group_id in soft_of(state).unanswered:
        why = "Partitions of the group are being initialized."
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)


# Alter ------------------------------------------------------------------------------------


def alter(
    state: ShardState,
    context: RequestContext,
    request: AlterShareGroupOffsetsRequest,
    now: Instant,
) -> Outcome:
    """Gives partitions new start offsets: R11, R15, and a call. A group that does not exist is
    created, even if no partition is right. Raises GROUP_ID_NOT_FOUND for a group of another type,
    NON_EMPTY_GROUP, GROUP_MAX_SIZE_REACHED."""
    group_id = request.group_id
    group, is_new = joined_group(state, group_id)
    _check_free(state, group)
    epoch = group.group_epoch + 1
    outcome = Outcome(
        records=[records.group_epoch(group_id, epoch, group.metadata_hash)], gate=group_id
    )
    if is_new:
        outcome.events.append(events.event(EventKind.GROUP_CREATED, group_id))
    outcome.events.append(
        events.event(
            EventKind.GROUP_EPOCH_BUMPED, group_id, epoch=epoch, cause="start offsets were altered"
        )
    )
    topics = []
    offsets: dict[TopicId, dict[int, int]] = {}
    names = {}
    for asked in request.topics:
        topic = state.image.by_name.get(asked.name)
        if topic is None:
            refused = [_altered(number, exists=False) for number, _ in asked.partitions]
            topics.append(AlteredShareOffsets(asked.name, refused))
            continue
        right = {one: offset for one, offset in asked.partitions if 0 <= one < topic.partitions}
        if right:
            offsets.setdefault(topic.topic_id, {}).update(right)
            names[topic.topic_id] = topic.name
        results = [_altered(number, exists=number in right) for number, _ in asked.partitions]
        topics.append(AlteredShareOffsets(asked.name, results, topic.topic_id))
    if not offsets:
        outcome.replies.append((context.token, AlterShareGroupOffsetsReply(topics=topics)))
        return outcome
    partitions = {topic_id: frozenset(its) for topic_id, its in offsets.items()}
    known = group.state_partitions or NO_STATE_PARTITIONS
    after = known.with_initializing(partitions, names)
    outcome.records.append(records.state_partitions(group_id, after))
    call = OutsideCall(
        SHARE_STATE,
        group_id,
        initialization.initialize_request(group_id, epoch, offsets),
        data=Alteration(tuple(topics)),
        token=context.token,
    )
    outcome.calls.append(call)
    soft_of(state).note(group_id, partitions, now)
    state.busy.add(group_id)
    return outcome


def _altered(number: int, *, exists: bool) -> ShareOffsetResult:
    if exists:
        return ShareOffsetResult(number)
    return ShareOffsetResult(number, _NOT_FOUND, _NO_SUCH_PARTITION)


def altered(state: ShardState, call: OutsideCall, answer: Any) -> Outcome:
    """The answer to the call of `alter`: R15, in which the partitions that have their new offsets
    are initialized. The others stay as they are: a later heartbeat initializes them."""
    data: Alteration = call.data
    if not isinstance(answer, ShareStateReply):
        code = answer.code if isinstance(answer, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
        reply = AlterShareGroupOffsetsReply(code, str(answer))
        return Outcome(replies=[(call.token, reply)], gate=call.group_id)
    errors = initialization.errors_of(answer)
    done = {
        topic_id: frozenset(number for number, (code, _) in its.items() if not code)
        for topic_id, its in errors.items()
    }
    outcome = initialization.changed(
        state, call.group_id, lambda known: known.with_initialized(done)
    )
    outcome.gate = call.group_id
    topics = [
        AlteredShareOffsets(
            topic.name,
            [_with_error(one, errors.get(topic.topic_id, {})) for one in topic.partitions],
            topic.topic_id,
        )
        for topic in data.topics
    ]
    outcome.replies.append((call.token, AlterShareGroupOffsetsReply(topics=topics)))
    return outcome


def _with_error(
    result: ShareOffsetResult, errors: dict[int, tuple[ErrorCode, str | None]]
) -> ShareOffsetResult:
    code, message = errors.get(result.partition, (ErrorCode.NONE, None))
    return (
        result if result.error or not code else ShareOffsetResult(result.partition, code, message)
    )


# Delete -----------------------------------------------------------------------------------


def delete(
    state: ShardState,
    context: RequestContext,
    request: DeleteShareGroupOffsetsRequest,
    now: Instant,
) -> Outcome:
    """Deletes the offsets of topics: R15 with them as deleting, and a call. Raises
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    group_id = request.group_id
    group = existing_group(state, group_id)
    _check_free(state, group)
    outcome = Outcome(gate=group_id)
    known = group.state_partitions
    if known is None:
        outcome.replies.append((context.token, DeleteShareGroupOffsetsReply()))
        return outcome
    refused: list[DeletedShareOffsets] = []
    partitions: dict[TopicId, range] = {}
    names: dict[TopicId, str] = {}
    for name in dict.fromkeys(request.topics):
        topic = state.image.by_name.get(name)
        if topic is None:
            refused.append(
                DeletedShareOffsets(name, error=_NOT_FOUND, error_message=_NO_SUCH_PARTITION)
            )
        elif topic.topic_id in known.initialized or topic.topic_id in known.deleting:
            partitions[topic.topic_id] = range(topic.partitions)
            names[topic.topic_id] = name
        else:
            why = "There is no offset information to delete."
            refused.append(DeletedShareOffsets(name, error=_NOT_FOUND, error_message=why))
    after = known.with_deleting(partitions)
    outcome.records.append(records.state_partitions(group_id, after))
    if not partitions:
        reply = DeleteShareGroupOffsetsReply(topics=refused)
        outcome.replies.append((context.token, reply))
        return outcome
    call = OutsideCall(
        SHARE_STATE,
        group_id,
        _delete_request(group_id, partitions),
        data=OffsetDeletion(tuple(refused), names),
        token=context.token,
    )
    outcome.calls.append(call)
    state.busy.add(group_id)
    return outcome


def deleted(state: ShardState, call: OutsideCall, answer: Any) -> Outcome:
    """The answer to the call of `delete`: R15 without the topics whose state is deleted. The others
    stay in it as deleting, so that the request can be repeated."""
    data: OffsetDeletion = call.data
    if not isinstance(answer, ShareStateReply):
        code = answer.code if isinstance(answer, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
        reply = DeleteShareGroupOffsetsReply(code, str(answer))
        return Outcome(replies=[(call.token, reply)], gate=call.group_id)
    results = list(data.refused)
    done = []
    for topic_id, errors in initialization.errors_of(answer).items():
        code, message = next((one for one in errors.values() if one[0]), (ErrorCode.NONE, None))
        results.append(DeletedShareOffsets(data.names[topic_id], topic_id, code, message))
        if not code:
            done.append(topic_id)
    reply = DeleteShareGroupOffsetsReply(topics=results)
    outcome = Outcome(replies=[(call.token, reply)], gate=call.group_id)
    group = state.groups.get(call.group_id)
    if done and isinstance(group, ShareGroup) and group.state_partitions is not None:
        after = group.state_partitions.without_deleting(done)
        outcome.records.append(records.state_partitions(call.group_id, after))
    return outcome


def _delete_request(
    group_id: str, partitions: Mapping[TopicId, range]
) -> DeleteShareGroupStateRequest:
    """About all partitions of the topics: some may have a state although they could not be
    initialized, because only the answer was lost."""
    topics = [ShareStateTopic(topic_id, list(its)) for topic_id, its in sorted(partitions.items())]
    return DeleteShareGroupStateRequest(group_id, topics)


def before_delete(state: ShardState, group: ShareGroup) -> tuple[list[Record], OutsideCall] | None:
    """What the share coordinator has to do before an empty group may be deleted: to delete the
    state of all its partitions. What an earlier deletion has left over is in it, too
    (docs/spec/share-group.md#SG-54). None if the group never had such state. Raises ApiError while
    a heartbeat's question is unanswered."""
    _check_free(state, group)
    known = group.state_partitions
    if known is None:
        return None
    # The share coordinator forgets topics that do not exist any more by itself.
    topics = [state.image.by_id[one] for one in known.names if one in state.image.by_id]
    partitions = {topic.topic_id: range(topic.partitions) for topic in topics}
    record = records.state_partitions(group.group_id, known.all_deleting(state.image.by_id))
    request = _delete_request(group.group_id, partitions)
    return [record], OutsideCall(SHARE_STATE_DELETION, group.group_id, request)


# Answers ----------------------------------------------------------------------------------


def answered(state: ShardState, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
    """The answer of the share coordinator to any call to `SHARE_STATE`."""
    if isinstance(call.data, Initialization):
        return initialization.answered(state, call.group_id, call.data, answer)
    state.busy.discard(call.group_id)
    return (altered if isinstance(call.data, Alteration) else deleted)(state, call, answer)
