"""Conversions between consumer groups and groups of other types (docs/spec/consumer-group.md#8).

Group types do not know each other, so `core.interop` makes the conversions. The consumer type has
them in its soft state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome
from groupd.protocol.records.schema import Record


class Conversion(Struct, frozen=True):
    """A group with members that the records of the current operation turn into a consumer group.
    `finish(now, outcome)` writes soft state, once nothing can fail any more."""

    event: Event
    finish: Callable[[Instant, Outcome], None]


class JoinedGroup(Struct, frozen=True):
    """The consumer group of a heartbeat. `is_new`: there was no group, or an empty classic one;
    `records`: those that remove or convert the group that was there; `conversion`: that of a group
    of another type with members, None if there was none."""

    group: ConsumerGroup
    is_new: bool = False
    records: list[Record] = field(default_factory=list)
    conversion: Conversion | None = None


class Conversions(Struct, frozen=True):
    """`joined(state, group)`: the consumer group that replaces a group of another type when a
    member joins it with ConsumerGroupHeartbeat; None if that is not possible. It changes nothing.
    It raises GROUP_ID_NOT_FOUND with the reason if the group must stay.

    `without_members`: the outcome of a removal of members, if that makes the group a classic one;
    None if it stays a consumer group. The arguments are those of `fence.fence_members`.
    """

    joined: Callable[[ShardState, Group], JoinedGroup | None]
    without_members: Callable[
        [
            ShardState,
            ConsumerGroup,
            Sequence[ConsumerGroupMember],
            EventKind,
            str,
            Instant,
            Mapping[str, str],
        ],
        Outcome | None,
    ]
