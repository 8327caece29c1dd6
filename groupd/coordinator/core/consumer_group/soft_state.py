"""What consumer groups keep in a shard's state beside the groups, by group id because a new group
has no object yet. It is lost with a restart; nothing in the log depends on it."""

from __future__ import annotations

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.group import TYPE_NAME
from groupd.coordinator.core.consumer_group.target_state import WaitingHeartbeats
from groupd.coordinator.core.state import ShardState


class SoftState(Struct):
    """`regex_tasks`: groups whose regular expressions are being resolved. `waiting_heartbeats`: by
    group id, the heartbeats that wait for a target."""

    regex_tasks: set[str] = field(default_factory=set)
    waiting_heartbeats: dict[str, WaitingHeartbeats] = field(default_factory=dict)


def soft_of(state: ShardState) -> SoftState:
    """The soft state of the consumer groups of a shard."""
    soft: SoftState = state.soft[TYPE_NAME]
    return soft
