"""Sessions of members of share groups, and what happens when a shard is loaded or topics change."""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.epochs import refresh_soon
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.share_group import records
from groupd.coordinator.core.share_group.configs import SESSION_TIMEOUT
from groupd.coordinator.core.share_group.group import DELETED_TOPICS, SESSION, ShareGroup
from groupd.coordinator.core.share_group.soft_state import soft_of
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    return SESSION_TIMEOUT.number(state.config, state.group_configs.get(group_id))


def start_session(state: ShardState, group_id: str, member_id: str, now: Instant) -> None:
    """Soft state: the member has a full session from now on."""
    at_ms = now.monotonic_ms + session_timeout_ms(state, group_id)
    state.deadlines.set((SESSION, group_id, member_id), at_ms)


def session(state: ShardState, group: ShareGroup, member_id: str) -> tuple[DeadlineKey, int] | None:
    """The deadline of the member's session and its timeout in ms; None for an unknown member."""
    if member_id not in group.members:
        return None
    return (SESSION, group.group_id, member_id), session_timeout_ms(state, group.group_id)


def share_groups(state: ShardState) -> Iterator[ShareGroup]:
    """The share groups of the shard."""
    return (group for group in state.groups.values() if isinstance(group, ShareGroup))


def on_loaded(state: ShardState, now: Instant) -> Outcome:
    """Give every member a full session. A partition that is being initialized has its full time,
    too: nobody knows whether the share coordinator was asked, and after that time a heartbeat asks
    again, as in Kafka."""
    for group in share_groups(state):
        for member_id in sorted(group.members):
            start_session(state, group.group_id, member_id, now)
        if group.state_partitions is not None and group.state_partitions.initializing:
            soft_of(state).note(group.group_id, group.state_partitions.initializing, now)
    return Outcome()


def on_metadata(state: ShardState, delta: MetadataDelta, now: Instant) -> Outcome:
    """Soft state: topics that do not exist any more leave the groups' R15 at once, group by group,
    because together the records may be larger than a batch may be. The share coordinator deletes
    the state of such topics by itself. Members hear of all changes with their next heartbeat."""
    touched = delta.touched()
    deleted = {topic_id for _, topic_id in delta.deleted}
    if not touched and not deleted:
        return Outcome()
    for group in share_groups(state):
        group_id, known = group.group_id, group.state_partitions
        if not touched.isdisjoint(group.name_subscribers):
            refresh_soon(group)
        if known is not None and (gone := deleted & known.names.keys()):
            soft_of(state).deleted_topics.setdefault(group_id, set()).update(gone)
            state.deadlines.set((DELETED_TOPICS, group_id, ""), now.monotonic_ms)
    return Outcome()


def forget_deleted_topics(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """R15 of one group without the topics that were deleted."""
    group_id = key[1]
    deleted = soft_of(state).deleted_topics.pop(group_id, set())
    group = state.groups.get(group_id)
    known = group.state_partitions if isinstance(group, ShareGroup) else None
    after = None if known is None else known.without_topics(deleted)
    if after is None or after == known:
        return Outcome()
    return Outcome(records=[records.state_partitions(group_id, after)])
