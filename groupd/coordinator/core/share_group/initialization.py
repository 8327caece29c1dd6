"""Initialization of share-partitions (docs/spec/share-group.md#2.4): a partition whose state the
share coordinator does not know yet is written down as initializing, the share coordinator is asked,
and its answer makes it initialized. Members get initialized partitions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.share_group import records
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.share_group.soft_state import soft_of
from groupd.coordinator.core.share_group.state_partitions import (
    NO_STATE_PARTITIONS,
    PartitionSets,
    StatePartitions,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, OutsideCall
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_state import (
    NO_OFFSET,
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ShareStateReply,
    ShareStateTopic,
)

SHARE_STATE = "share-state"
"""Whom a share group asks about the durable state of its partitions. The request is one of
`messages.share_state`, the answer a `ShareStateReply`."""

StartOffsets = Mapping[TopicId, Mapping[int, int]]
"""Start offsets by topic id and partition."""

PARTITIONS_AT_ONCE = 2000
"""A heartbeat takes no further topic once it begins to initialize so many partitions. The next one
goes on."""


class Initialization(Struct, frozen=True):
    """The data of a call by a heartbeat."""

    partitions: PartitionSets


def start(
    state: ShardState,
    group: ShareGroup,
    names: Iterable[str],
    group_epoch: int,
    now: Instant,
    outcome: Outcome,
) -> None:
    """Step 8 of a heartbeat: begin to initialize what the group subscribes to and does not have
    yet. Adds R15 and the call to the outcome; notes the time as soft state. `names`: all topics
    that are subscribed after this heartbeat; `group_epoch`: the group epoch after it."""
    known = group.state_partitions or NO_STATE_PARTITIONS
    wanted = _wanted(state, group.group_id, known, names, now)
    if not wanted:
        return
    # Records may be in new partitions of a known topic already; a new topic starts where the
    # setting share.auto.offset.reset says.
    offsets = {
        topic_id: dict.fromkeys(
            numbers,
            0 if topic_id in known.initialized or topic_id in known.initializing else NO_OFFSET,
        )
        for topic_id, numbers in wanted.items()
    }
    topics = {topic_id: state.image.by_id[topic_id].name for topic_id in wanted}
    after = known.with_initializing(wanted, topics)
    outcome.records.append(records.state_partitions(group.group_id, after))
    request = initialize_request(group.group_id, group_epoch, offsets)
    outcome.calls.append(
        OutsideCall(SHARE_STATE, group.group_id, request, data=Initialization(wanted))
    )
    soft_of(state).note(group.group_id, wanted, now)
    soft_of(state).asked(group.group_id, wanted)


def _wanted(
    state: ShardState,
    group_id: str,
    known: StatePartitions,
    names: Iterable[str],
    now: Instant,
) -> dict[TopicId, frozenset[int]]:
    retry_ms, soft = state.config.share_initialize_retry_interval_ms, soft_of(state)
    nobody: frozenset[int] = frozenset()
    lacking = []
    for name in names:
        topic = state.image.by_name.get(name)
        if topic is None:
            continue
        topic_id = topic.topic_id
        done = known.initialized.get(topic_id, nobody)
        if len(done) >= topic.partitions:
            continue
        if not soft.is_over(group_id, topic_id, retry_ms, now):
            done |= known.initializing.get(topic_id, nobody)
        if len(done) < topic.partitions:
            lacking.append((name, topic, done))
    wanted: dict[TopicId, frozenset[int]] = {}
    room = PARTITIONS_AT_ONCE
    for _, topic, done in sorted(lacking, key=itemgetter(0)):
        if room > 0:
            wanted[topic.topic_id] = frozenset(range(topic.partitions)) - done
            room -= len(wanted[topic.topic_id])
    return wanted


def initialize_request(
    group_id: str, state_epoch: int, offsets: StartOffsets
) -> InitializeShareGroupStateRequest:
    """Topics and partitions are ascending."""
    topics = [
        ShareStateTopic(
            topic_id,
            [
                InitializedShareState(number, state_epoch, offset)
                for number, offset in sorted(its.items())
            ],
        )
        for topic_id, its in sorted(offsets.items())
    ]
    return InitializeShareGroupStateRequest(group_id, topics)


def errors_of(answer: ShareStateReply) -> dict[TopicId, dict[int, tuple[ErrorCode, str | None]]]:
    """The errors of a reply by topic and partition, NONE included."""
    return {
        topic.topic_id: {one.partition: (one.error, one.error_message) for one in topic.partitions}  # type: ignore[union-attr]
        for topic in answer.topics
    }


def succeeded(answer: Any) -> bool:
    """Whether the share coordinator has done everything that it was asked for."""
    if not isinstance(answer, ShareStateReply):
        return False
    return not any(code for its in errors_of(answer).values() for code, _ in its.values())


def answered(state: ShardState, group_id: str, data: Initialization, answer: Any) -> Outcome:
    """The answer to the call of a heartbeat. If another call about a topic was made because this
    one took so long, the answer to the last one counts: it begins the state of the topic anew, so
    members must not have acknowledged anything before. After any error none of the partitions is
    initialized; the next heartbeat asks again at once."""
    last = soft_of(state).answered(group_id, data.partitions)
    partitions = {topic_id: data.partitions[topic_id] for topic_id in last}
    if succeeded(answer):
        return changed(state, group_id, lambda known: known.with_initialized(partitions))
    return changed(state, group_id, lambda known: known.with_failed(partitions))


def changed(
    state: ShardState, group_id: str, change: Callable[[StatePartitions], StatePartitions]
) -> Outcome:
    """R15 after the change. Nothing is written if it makes no difference, because none of the
    partitions is being initialized any more."""
    group = state.groups.get(group_id)
    known = group.state_partitions if isinstance(group, ShareGroup) else None
    if known is None or (after := change(known)) == known:
        return Outcome()
    soft_of(state).keep(group_id, after.initializing)
    return Outcome(records=[records.state_partitions(group_id, after)])
