"""When a group looks at topic metadata again (spec 4 "Refresh due").

The work happens on the next heartbeat of any member, never by timer. A change of a subscribed
topic brings the deadline forward; new and freshly loaded groups start with it passed.
"""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant

REFRESH_INTERVAL_MS = 2**31 - 1


def is_refresh_due(group: ConsumerGroup, now: Instant) -> bool:
    """Also when the group epoch lags the epoch noted at the last refresh: its write failed."""
    return (
        now.monotonic_ms >= group.refresh_deadline_ms
        or group.group_epoch < group.refresh_deadline_epoch
    )


def schedule_refresh(group: ConsumerGroup, group_epoch: int, now: Instant) -> None:
    """Soft state: the group has just been refreshed, with `group_epoch` as the result."""
    group.refresh_deadline_ms = now.monotonic_ms + REFRESH_INTERVAL_MS
    group.refresh_deadline_epoch = group_epoch


def request_refresh(group: ConsumerGroup) -> None:
    """Soft state: refresh at the next heartbeat."""
    group.refresh_deadline_ms = 0
    group.refresh_deadline_epoch = 0


def on_metadata(state: ShardState, delta: MetadataDelta) -> None:
    """Expire the refresh deadline of every group subscribed to a topic that the delta touches."""
    touched = {*delta.created, *delta.changed, *(name for name, _ in delta.deleted)}
    if not touched:
        return
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, touched)):
            request_refresh(group)
