"""What may happen when a member of one protocol meets a group of another type.

Group types do not know each other. When one of them finds a group of another type, or is about to
turn a group into another type, it asks the shard's `Migration`; `core.interop` has the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome
from groupd.protocol.records.schema import Record


class Conversion(Protocol):
    """A group that is being turned into a consumer group by the records of the current
    operation."""

    def event(self) -> Event:
        """The event of the conversion."""
        ...

    def finish(self, now: Instant, outcome: Outcome) -> None:
        """Write soft state, once nothing can fail any more."""
        ...


class JoinedGroup(Struct, frozen=True):
    """The consumer group of a heartbeat. `is_new`: there was no group, or an empty classic one;
    `records`: those that remove or convert the group that was there; `conversion`: that of a group
    of another type with members, None if there was none."""

    group: ConsumerGroup
    is_new: bool = False
    records: list[Record] = field(default_factory=list)
    conversion: Conversion | None = None


class Migration(Protocol):
    """The conversions that are possible in a shard; one object for each shard."""

    def may_become_classic(self, group: Group) -> bool:
        """Whether a new classic group may replace this group, which is of another type."""
        ...

    def joined_by_consumer(self, group: Group) -> JoinedGroup | None:
        """The consumer group that replaces a group of another type when a member joins it with
        ConsumerGroupHeartbeat; None if that is not possible. Changes nothing. Raises
        GROUP_ID_NOT_FOUND with the reason if the group must stay."""
        ...

    def without_members(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerGroupMember],
        kind: EventKind,
        cause: str,
        now: Instant,
        causes: Mapping[str, str],
    ) -> Outcome | None:
        """The outcome of a removal of these members, if that makes the group a classic one; None if
        it stays a consumer group. The arguments are those of `fence.fence_members`."""
        ...
