"""A raffle, its records and how they are applied."""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.state import ShardState
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import Record

TYPE_NAME = "raffle"
DRAW = "raffle-draw"
"""The deadline of a raffle: the draw."""
RESERVED = "raffle-reserved"
"""The deadline of a prize, by topic id and partition: the ticket with its number lapses."""
PRIZES_ID = b"p" * 16


class RaffleKey(Struct, frozen=True):
    """The key of a raffle's record, of type 120."""

    group: str


class RaffleValue(Struct, frozen=True):
    """`epoch` grows with every ticket. `closing`: the prizes are being returned."""

    epoch: int
    closing: bool = False


class TicketKey(Struct, frozen=True):
    """The key of a ticket's record, of type 121."""

    group: str
    member_id: str


class TicketValue(Struct, frozen=True):
    """`claimed`: the jury has been asked, or is about to be, what the ticket has won."""

    client_id: str
    number: int
    claimed: bool = False


class Ticket(Struct, frozen=True):
    """A member of the group."""

    member_id: str
    client_id: str
    client_host: str
    number: int
    claimed: bool = False


class Raffle:
    """Implements `coordinator.core.group.Group`."""

    type_name = TYPE_NAME
    protocol_type = TYPE_NAME
    offset_owner = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.closing = False
        self.members: dict[str, Ticket] = {}

    def state_name(self) -> str:
        return "Open" if self.members else "Empty"

    def is_empty(self) -> bool:
        return not self.members

    def awaits_members(self) -> bool:
        return False

    def admits_classic_members(self) -> bool:
        return False

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        deadlines.cancel_group(self.group_id)

    def tombstones(self) -> list[Record]:
        return [Record(RaffleKey(self.group_id))]


def replay_raffle(state: ShardState, key: RaffleKey, value: RaffleValue | None) -> None:
    if value is None:
        state.groups.pop(key.group, None)
    else:
        group = raffle_of(state, key.group)
        group.epoch, group.closing = value.epoch, value.closing


def replay_ticket(state: ShardState, key: TicketKey, value: TicketValue | None) -> None:
    members = raffle_of(state, key.group).members
    if value is None:
        members.pop(key.member_id, None)
    else:
        members[key.member_id] = Ticket(
            key.member_id, value.client_id, "/127.0.0.1", value.number, value.claimed
        )


def raffle_of(state: ShardState, group_id: str) -> Raffle:
    """The group, made if there is none."""
    group = state.groups.get(group_id)
    if not isinstance(group, Raffle):
        group = state.groups[group_id] = Raffle(group_id)
    return group
