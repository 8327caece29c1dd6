"""When the epochs of a group move on: the group epoch with the metadata of its topics, the
assignment epoch with the next target (docs/spec/consumer-group.md#4, #6). It is the same for
consumer groups and share groups."""

from __future__ import annotations

from typing import Protocol

from groupd.coordinator.core.types import Instant


class EpochGroup(Protocol):
    """A group with a group epoch and the epoch of its target. `refresh_deadline_ms`: when the
    metadata of its topics is looked at again, in monotonic ms; `refresh_deadline_epoch`: the group
    epoch at the last look. Both are soft state."""

    group_epoch: int
    assignment_epoch: int
    assignment_timestamp_ms: int
    refresh_deadline_ms: int
    refresh_deadline_epoch: int


LEAVE_EPOCH = -1
"""Member epoch of a leave request, and of a member whose current assignment is tombstoned; target
epoch of a group whose target is."""

REFRESH_INTERVAL_MS = 2**31 - 1


def is_refresh_due(group: EpochGroup, now: Instant) -> bool:
    """Whether the metadata of the group's topics must be looked at again: the deadline has passed,
    or the group epoch is below the one noted at the last refresh, because the write of that epoch
    failed."""
    return (
        now.monotonic_ms >= group.refresh_deadline_ms
        or group.group_epoch < group.refresh_deadline_epoch
    )


def schedule_refresh(group: EpochGroup, group_epoch: int, now: Instant) -> None:
    """Soft state: note that the group has just been refreshed; its epoch is `group_epoch` after
    that."""
    group.refresh_deadline_ms = now.monotonic_ms + REFRESH_INTERVAL_MS
    group.refresh_deadline_epoch = group_epoch


def refresh_soon(group: EpochGroup) -> None:
    """Soft state: let the next heartbeat look at the metadata of the group's topics."""
    group.refresh_deadline_ms = 0
    group.refresh_deadline_epoch = 0


def is_next_target_due(group: EpochGroup, group_epoch: int, interval_ms: int, now: Instant) -> bool:
    """Whether the target of `group_epoch` is missing and the assignment interval (KIP-1263) lets it
    be computed now. If the last target is dated in the future, the clock was set back; then the
    target is due at once."""
    if group.assignment_epoch >= group_epoch:
        return False
    last_ms = group.assignment_timestamp_ms
    if not last_ms or not interval_ms or now.wall_ms < last_ms:
        return True
    return now.wall_ms >= last_ms + interval_ms
