"""Removal of members, whatever the reason: leave, session or rebalance expiry, administration.

Every removal passes through `fence_members`. Whatever must happen when members are removed (the
target of the others, a conversion back to a classic group) belongs there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.group import REBALANCE, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.subscription import TopicsChange, metadata_hash
from groupd.coordinator.core.consumer_group.timers import cancel_member
from groupd.coordinator.core.counts import increment
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group import SESSION_EXPIRED
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome

NO_CAUSES: Mapping[str, str] = {}


def fence_members(
    state: ShardState,
    group: ConsumerGroup,
    members: Sequence[ConsumerGroupMember],
    kind: EventKind,
    cause: str,
    now: Instant,
    causes: Mapping[str, str] = NO_CAUSES,
) -> Outcome:
    """Removes members as `remove_members` does. But if only members on the classic protocol stay,
    the group becomes a classic one where the migration policy allows it
    (docs/spec/consumer-group.md#8 "Downgrade" (a)). The caller adds the replies."""
    conversions = soft_of(state).conversions
    if members and conversions is not None:
        converted = conversions.without_members(state, group, members, kind, cause, now, causes)
        if converted is not None:
            return converted
    outcome = remove_members(state, group, members, kind, cause, causes)
    if members and group.is_classic_only({member.member_id for member in members}):
        group.rejoin_epoch = group.group_epoch + 1
    return outcome


def remove_members(
    state: ShardState,
    group: ConsumerGroup,
    members: Sequence[ConsumerGroupMember],
    kind: EventKind,
    cause: str,
    causes: Mapping[str, str] = NO_CAUSES,
) -> Outcome:
    """Removes members (docs/spec/consumer-group.md#4 "Leave -1"): T8, T7, T5 of each member, T16 of
    expressions that no member uses any more, one R3, and R6 if the group becomes empty. No target
    is computed now.

    `members`: distinct members of the group; if there are none, nothing happens. `kind`:
    MEMBER_LEFT or MEMBER_FENCED. `causes`: by member id, the causes of members that have a cause of
    their own. The caller adds the replies.
    """
    outcome = Outcome(gate=group.group_id)
    if not members:
        return outcome
    change = TopicsChange()
    patterns: dict[str, int] = {}
    for member in members:
        outcome.records.extend(records.member_removal(group.group_id, member.member_id))
        outcome.events.append(
            events.member_removed(
                kind, group.group_id, member, causes.get(member.member_id, cause), state.image
            )
        )
        change.add(member.subscribed_topic_names, -1)
        if member.subscribed_topic_regex:
            increment(patterns, member.subscribed_topic_regex)
    for pattern in sorted(patterns):
        if group.regex_subscribers[pattern] == patterns[pattern]:
            outcome.records.append(records.regex_tombstone(group.group_id, pattern))
            change.add(group.regexes.topics_of(pattern), -1)
    _bump(state, group, len(members), change, cause, outcome)
    for member in members:
        cancel_member(state.deadlines, group.group_id, member.member_id)
    return outcome


def _bump(
    state: ShardState,
    group: ConsumerGroup,
    removed: int,
    change: TopicsChange,
    cause: str,
    outcome: Outcome,
) -> None:
    epoch = group.group_epoch + 1
    new_hash = metadata_hash(group, state.image, change)
    outcome.records.append(records.group_epoch(group.group_id, epoch, new_hash))
    outcome.events.append(
        events.event(
            EventKind.GROUP_EPOCH_BUMPED,
            group.group_id,
            epoch=epoch,
            cause=f"{removed} of {len(group.members)} members removed: {cause}",
            details={"members": len(group.members) - removed},
        )
    )
    if removed == len(group.members):
        # Timestamp 0: the next member that joins the empty group must not wait for the assignment
        # interval.
        outcome.records.append(records.target_epoch(group.group_id, epoch, 0))


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """A "consumer-session" or "consumer-rebalance" deadline has passed: remove the member."""
    kind, group_id, member_id = key
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    member = group.members.get(member_id)
    if member is None:
        return Outcome()
    if kind == REBALANCE:
        # The member has reached another epoch; the deadline was for an earlier one.
        if group.rebalance_epochs.get(member_id) != member.member_epoch:
            return Outcome()
        cause = f"partitions not revoked within {member.rebalance_timeout_ms} ms"
    else:
        cause = SESSION_EXPIRED
    return fence_members(state, group, [member], EventKind.MEMBER_FENCED, cause, now)
