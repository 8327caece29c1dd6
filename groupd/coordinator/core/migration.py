"""What may happen when a member of one protocol meets a group of another type.

Group types do not know each other. Where one of them finds a group that is not its own, or is about
to become another type, it asks the shard's `Migration`; `core.interop` has the answers.
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
    """A group that is becoming a consumer group by the records of the operation under way."""

    def event(self) -> Event:
        """Tells of the conversion."""
        ...

    def finish(self, now: Instant, outcome: Outcome) -> None:
        """Soft state, once nothing can fail any more."""
        ...


class JoinedGroup(Struct, frozen=True):
    """The consumer group that a heartbeat means. `is_new`: there was none, or an empty classic one;
    `records`: what makes room for it; `conversion`: it was a group of another type with members."""

    group: ConsumerGroup
    is_new: bool = False
    records: list[Record] = field(default_factory=list)
    conversion: Conversion | None = None


class Migration(Protocol):
    """The conversions that a shard knows; an object of one shard."""

    def may_become_classic(self, group: Group) -> bool:
        """Whether a new classic group may take the place of a group of another type."""
        ...

    def joined_by_consumer(self, group: Group) -> JoinedGroup | None:
        """The consumer group that takes the place of a group of another type when a member joins
        it with ConsumerGroupHeartbeat; None if there is no way. Changes nothing. Raises
        GROUP_ID_NOT_FOUND with the reason when the group must stay."""
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
        """The outcome of these members' leaving if that makes the group a classic one; None if it
        stays a consumer group. The arguments are those of `fence.fence_members`."""
        ...
