"""Regular expressions of a group (docs/spec/consumer-group.md#4.1): checking, scheduling,
resolving, completing.

Expressions are in RE2 syntax and must match the whole topic name. Only one resolution of a group is
under way at a time. It covers all expressions of the group, with the rights of the member whose
heartbeat caused it. Its result comes back as an input and is applied to the state of that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.subscription import (
    TopicsChange,
    metadata_hash,
)
from groupd.coordinator.core.epochs import schedule_refresh
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.partitioning import COMPACTED_TOPIC
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    EventKind,
    Instant,
    Operation,
    Outcome,
    RequestContext,
    Resource,
    Task,
)
from groupd.coordinator.patterns import BadPattern, compile_pattern
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import ConsumerGroupRegexValue, Record

TASK_KIND = "consumer-regex"

MIN_REFRESH_INTERVAL_MS = 10_000
"""The shortest time between two resolutions of a group."""

FIRST_BY_CLOCK = 10**12
"""Metadata versions from this number on count from wall-clock milliseconds: they come from a daemon
that was not a node of a cluster. The versions of a cluster count its changes."""

Resolution = Mapping[str, ConsumerGroupRegexValue]
"""The result of the task: expression -> the topics that it matches."""


class RegexChange(Struct, frozen=True):
    """How a member's change of expression affects the group. `dropped`: the old expression if no
    other member uses it; `is_new`: no member used the new expression; `bump`: the subscribed topics
    change at once."""

    changed: bool = False
    dropped: str = ""
    is_new: bool = False
    bump: bool = False


NO_CHANGE = RegexChange()


def change_of(
    group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember
) -> RegexChange:
    """The change of expression from `before` to `after`. Raises INVALID_REGULAR_EXPRESSION for a
    new expression that does not compile."""
    old, new = before.subscribed_topic_regex, after.subscribed_topic_regex
    if old == new:
        return NO_CHANGE
    dropped = old if group.regex_subscribers.get(old, 0) == 1 else ""
    if not new:
        return RegexChange(changed=True, dropped=dropped, bump=True)
    if new in group.regex_subscribers:
        resolved = group.regexes.get(new) is not None
        return RegexChange(changed=True, dropped=dropped, bump=resolved)
    check_compiles(new)
    return RegexChange(changed=True, dropped=dropped, is_new=True)


def check_compiles(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except BadPattern as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Regular expression {pattern!r} is not valid RE2: {error}",
        ) from error


def tombstone(group_id: str, change: RegexChange) -> list[Record]:
    """T16 of the expression that no member uses any more, even if it was never resolved."""
    return [records.regex_tombstone(group_id, change.dropped)] if change.dropped else []


def task_if_due(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    change: RegexChange,
    now: Instant,
) -> Task | None:
    """The resolution to start now, if one is due. `member`: the member as this operation leaves it.
    The caller notes the task in `SoftState.regex_tasks`."""
    if not group.regex_subscribers and not change.is_new:
        return None
    refreshed_at_ms = group.regexes.refreshed_at_ms
    # If the last resolution is dated in the future, the clock was set back; then it is not too
    # early.
    is_early = refreshed_at_ms <= now.wall_ms <= refreshed_at_ms + MIN_REFRESH_INTERVAL_MS
    if group.group_id in soft_of(state).regex_tasks or is_early:
        return None
    count = len(group.regex_subscribers) - bool(change.dropped) + change.is_new
    if not count:
        return None
    needed = (
        change.is_new
        or count != len(group.regexes)
        or group.regexes.version < state.image.created_version
        or state.image.version < FIRST_BY_CLOCK <= group.regexes.version
        or now.wall_ms > refreshed_at_ms + state.config.consumer_regex_refresh_interval_ms
    )
    if not needed:
        return None
    patterns = set(group.regex_subscribers) - {change.dropped}
    if member.subscribed_topic_regex:
        patterns.add(member.subscribed_topic_regex)
    return Task(
        TASK_KIND,
        group.group_id,
        _resolver(state.image, tuple(sorted(patterns)), context, now.wall_ms),
    )


def _resolver(
    image: MetadataImage, patterns: tuple[str, ...], context: RequestContext, started_ms: int
) -> Callable[[], Steps[Resolution]]:
    def steps() -> Steps[Resolution]:
        resolution = {}
        for pattern in patterns:
            topics = yield from _matching(image, pattern, context)
            resolution[pattern] = ConsumerGroupRegexValue(topics, image.version, started_ms)
        return resolution

    return steps


def _matching(
    image: MetadataImage, pattern: str, context: RequestContext
) -> Steps[tuple[str, ...]]:
    """The names of the matching topics, internal ones included, that the principal may describe."""
    try:
        compiled = compile_pattern(pattern)
    except BadPattern:
        # Only a log that was written elsewhere can hold such an expression. It matches nothing,
        # because otherwise every resolution of the group would fail for ever.
        return ()
    found: list[str] = []
    for names in chunks(sorted(image.by_name)):
        found += [
            name
            for name in names
            if name != COMPACTED_TOPIC
            and compiled.fullmatch(name)
            and context.sees(Operation.DESCRIBE, Resource.TOPIC, name)
        ]
        yield
    return tuple(found)


def complete(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    """Apply what a task found. If the task failed, `result` is an exception, and a later heartbeat
    tries again. Expressions that no member uses any more are skipped."""
    soft_of(state).regex_tasks.discard(task.group_id)
    group = state.groups.get(task.group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    if isinstance(result, BaseException):
        cause = f"{type(result).__name__}: {result}"
        return Outcome(events=[events.event(EventKind.REGEX_FAILED, task.group_id, cause=cause)])
    resolution: Resolution = result
    outcome = Outcome(gate=task.group_id)
    change = TopicsChange()
    moved: list[str] = []
    for pattern in sorted(resolution):
        if pattern not in group.regex_subscribers:
            continue
        before, after = group.regexes.topics_of(pattern), resolution[pattern].topics
        if before != after:
            moved.append(pattern)
            change.add(before, -1)
            change.add(after, 1)
        elif group.regexes.get(pattern) is None and _has_stale_target(state, group, pattern):
            moved.append(pattern)
        outcome.records.append(records.regex(task.group_id, pattern, resolution[pattern]))
        outcome.events.append(
            events.event(
                EventKind.REGEX_RESOLVED,
                task.group_id,
                cause="topics changed" if before != after else "topics unchanged",
                details={"regex": pattern, "topics": list(after)},
            )
        )
    _bump_if_needed(state, group, change, moved, outcome, now)
    return outcome


def _has_stale_target(state: ShardState, group: ConsumerGroup, pattern: str) -> bool:
    """Whether the target still gives a subscriber of this pattern, which matches nothing, topics of
    its old expression. Without a new target no other member would ever get these partitions."""
    return any(
        topic_id in state.image.by_id
        and state.image.by_id[topic_id].name not in member.subscribed_topic_names
        for member_id, member in group.members.items()
        if member.subscribed_topic_regex == pattern
        for topic_id in group.targets.get(member_id, NO_TARGET)
    )


def _bump_if_needed(
    state: ShardState,
    group: ConsumerGroup,
    change: TopicsChange,
    moved: list[str],
    outcome: Outcome,
    now: Instant,
) -> None:
    new_hash = metadata_hash(group, state.image, change)
    if not moved and new_hash == group.metadata_hash:
        return
    epoch = group.group_epoch + 1
    cause = f"topics of {', '.join(moved)} changed" if moved else "topic metadata changed"
    outcome.records.append(records.group_epoch(group.group_id, epoch, new_hash))
    outcome.events.append(
        events.event(EventKind.GROUP_EPOCH_BUMPED, group.group_id, epoch=epoch, cause=cause)
    )
    schedule_refresh(group, epoch, now)
