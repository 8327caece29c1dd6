"""The type: requests, deadline, views."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.config.values import INT, ValueRule
from groupd.coordinator.core.blocked import due_in, wait
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group_configs import GroupConfig
from groupd.coordinator.core.group_type import (
    GroupType,
    Holding,
    LoggedEvent,
    LoggedEventKind,
    MemberIdentity,
    Meter,
)
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    NO_TOKEN,
    Event,
    EventKind,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
    Task,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply, HeartbeatRequest
from groupd.protocol.records.schema import Record
from tests.unit.core.raffle.group import (
    DRAW,
    PRIZES_ID,
    RESERVED,
    TYPE_NAME,
    Raffle,
    RaffleKey,
    RaffleValue,
    TicketKey,
    TicketValue,
    raffle_of,
    replay_raffle,
    replay_ticket,
)

RESERVED_MS = 1_000_000

DRAW_DELAY = GroupConfig(
    "raffle.draw.delay.ms",
    ValueRule(INT, 1),
    default="60000",
    documentation="How long after the last ticket the draw is.",
)

JURY = "raffle-jury"
"""Whom a raffle asks what a ticket has won."""

COUNTER = "raffle-counter"
"""Who knows where raffles are in their prizes."""

STORE_ROOM = "raffle-store-room"
"""Who takes the prizes back before a raffle is deleted in which tickets were sold."""

event = partial(Event, TYPE_NAME)
"""Makes an event of a raffle."""


class BuyTicket(Struct, frozen=True):
    """The request by which a member joins; answered with its number."""

    group_id: str
    member_id: str


class ClaimPrize(Struct, frozen=True):
    """Answered with the prize, once the jury has said what it is; the ticket is gone then. None:
    there is no jury."""

    group_id: str
    member_id: str


class DescribeRaffle(Struct, frozen=True):
    """Answered with the numbers by member id."""

    group_id: str


def arm_draw(state: ShardState, group_id: str, now: Instant) -> None:
    delay_ms = DRAW_DELAY.number(state.config, state.group_configs.get(group_id))
    state.deadlines.set((DRAW, group_id, ""), now.monotonic_ms + delay_ms)


def reserve(state: ShardState, group_id: str, number: int, now: Instant) -> None:
    key = (RESERVED, group_id, PRIZES_ID, number)
    state.deadlines.set(key, now.monotonic_ms + RESERVED_MS)


class Shuffles(Struct):
    """Soft state: the raffles whose tickets are being shuffled."""

    under_way: set[str] = field(default_factory=set)


def buy(state: ShardState, context: RequestContext, request: BuyTicket, now: Instant) -> Outcome:
    group = state.groups.get(request.group_id) or Raffle(request.group_id)
    assert isinstance(group, Raffle)
    epoch = group.epoch + 1
    state.soft[TYPE_NAME].under_way.add(request.group_id)
    arm_draw(state, request.group_id, now)
    reserve(state, request.group_id, epoch, now)
    return Outcome(
        records=[
            Record(
                TicketKey(request.group_id, request.member_id),
                TicketValue(context.client_id, epoch),
            ),
            Record(RaffleKey(request.group_id), RaffleValue(epoch)),
        ],
        replies=[(context.token, epoch)],
        gate=request.group_id,
        events=[
            event(EventKind.MEMBER_JOINED, request.group_id, request.member_id, epoch),
            # A detail of the same name as in the events of classic groups.
            event(
                EventKind.GROUP_EPOCH_BUMPED,
                request.group_id,
                epoch=epoch,
                cause="a ticket was sold",
                details={"protocol": "paper"},
            ),
        ],
        tasks=[Task("raffle-shuffle", request.group_id, lambda: epoch)],
    )


def claim(state: ShardState, context: RequestContext, request: ClaimPrize, now: Instant) -> Outcome:
    """Writes that the jury is asked, and asks it once that is durable."""
    ticket = raffle_of(state, request.group_id).members[request.member_id]
    claimed = TicketValue(ticket.client_id, ticket.number, claimed=True)
    return Outcome(
        records=[Record(TicketKey(request.group_id, request.member_id), claimed)],
        calls=[OutsideCall(JURY, request.group_id, request.member_id, token=context.token)],
    )


def judged(state: ShardState, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
    """Nobody waits for the answer to a question that was asked again."""
    asked = call.token is not NO_TOKEN
    if isinstance(answer, Exception):
        replies = [(call.token, None)] if asked else []
        return Outcome(replies=replies, gate=call.group_id)
    return Outcome(
        records=[Record(TicketKey(call.group_id, call.request))],
        replies=[(call.token, answer)] if asked else [],
    )


def return_prizes(state: ShardState, group: Raffle) -> tuple[list[Record], OutsideCall] | None:
    if not group.epoch:
        return None
    closing = Record(RaffleKey(group.group_id), RaffleValue(group.epoch, closing=True))
    return [closing], OutsideCall(STORE_ROOM, group.group_id, group.epoch)


def lapse(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """A prize was reserved for long enough."""
    _, group_id, _, number = key
    members = raffle_of(state, group_id).members.values()
    late = [one.member_id for one in members if one.number == number]
    return Outcome(records=[Record(TicketKey(group_id, member_id)) for member_id in late])


def describe(
    state: ShardState, context: RequestContext, request: DescribeRaffle, now: Instant
) -> Outcome:
    members = raffle_of(state, request.group_id).members
    shown = {member_id: ticket.number for member_id, ticket in members.items()}
    return Outcome(replies=[(context.token, shown)], gate=request.group_id)


def is_present(
    state: ShardState,
    group: Raffle,
    context: RequestContext,
    request: HeartbeatRequest,
    now: Instant,
) -> Outcome:
    """The Heartbeat of the classic protocol, from somebody with a ticket."""
    known = request.member_id in group.members
    code = ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID
    return Outcome(replies=[(context.token, HeartbeatReply(code))], gate=group.group_id)


def draw(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """Draws: all tickets go."""
    group = raffle_of(state, key[1])
    return Outcome(
        records=[Record(TicketKey(group.group_id, member_id)) for member_id in group.members],
        events=[event(EventKind.REBALANCE_COMPLETED, group.group_id)],
    )


def shuffled(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    state.soft[TYPE_NAME].under_way.discard(task.group_id)
    return Outcome(records=[Record(RaffleKey(task.group_id), RaffleValue(result + 1))])


def on_loaded(state: ShardState, now: Instant) -> Outcome:
    """Sets the deadlines, and asks the jury again what nobody has heard its answer to."""
    calls = []
    for group in state.groups.values():
        if isinstance(group, Raffle):
            arm_draw(state, group.group_id, now)
            for ticket in group.members.values():
                reserve(state, group.group_id, ticket.number, now)
                if ticket.claimed:
                    calls.append(OutsideCall(JURY, group.group_id, ticket.member_id))
    return Outcome(calls=calls)


def on_metadata(state: ShardState, delta: MetadataDelta, now: Instant) -> Outcome:
    """A topic that is created opens a raffle of its name."""
    opened = [name for name in sorted(delta.created) if name not in state.groups]
    return Outcome(records=[Record(RaffleKey(name), RaffleValue(0)) for name in opened])


def unload(state: ShardState) -> Outcome:
    return Outcome(urgent=[(7, "closed")])


def inspect(
    state: ShardState, group: Raffle, now: Instant, after: str | None = None
) -> dict[str, Any]:
    left_ms = due_in(state.deadlines, (DRAW, group.group_id, ""), now)
    return {
        "epoch": group.epoch,
        "members": [{"member_id": one.member_id} for one in group.members.values()],
        "blocked": [wait("the draw is still to come", "", left_ms)],
        "shuffling": group.group_id in state.soft[TYPE_NAME].under_way,
    }


def identify(group: Raffle, member_id: str) -> MemberIdentity:
    ticket = group.members[member_id]
    return MemberIdentity(member_id, None, ticket.client_id, ticket.client_host, group.epoch)


def owned_partitions(group: Raffle, member_id: str) -> list[Holding]:
    """The number is a partition of the topic "prizes"."""
    return [("prizes", [group.members[member_id].number])]


class Sold(Struct, frozen=True):
    """A position in the partition of a prize."""

    offset: int
    commit_timestamp_ms: int = 1000


def positions(state: ShardState, store: OffsetStore, group: Raffle) -> OutsideCall:
    """The answer has a `Sold` for the partition of each number."""
    numbers = tuple(ticket.number for ticket in group.members.values())
    return OutsideCall(COUNTER, group.group_id, numbers)


def session(state: ShardState, group: Raffle, member_id: str) -> tuple[DeadlineKey, int] | None:
    """A sign of life of a member with a ticket puts the draw off."""
    if member_id not in group.members:
        return None
    delay_ms = DRAW_DELAY.number(state.config, state.group_configs.get(group.group_id))
    return (DRAW, group.group_id, ""), delay_ms


def bought(before: Any, key: TicketKey, value: TicketValue | None) -> Iterator[LoggedEvent]:
    if value is None or not value.claimed:
        joined = LoggedEventKind.MEMBER_LEFT if value is None else LoggedEventKind.MEMBER_JOINED
        yield joined, key.member_id, -1, {}


def problems(group: Raffle) -> Iterator[str]:
    if any(ticket.number > group.epoch for ticket in group.members.values()):
        yield f"raffle {group.group_id} has a ticket from the future"


RAFFLE = GroupType(
    name=TYPE_NAME,
    group_key=RaffleKey,
    configs=(DRAW_DELAY,),
    soft_state=Shuffles,
    states=("Empty", "Open"),
    meters=(Meter("raffle_draw", EventKind.REBALANCE_COMPLETED, "Draws of raffles"),),
    requests={BuyTicket: buy, ClaimPrize: claim, DescribeRaffle: describe},
    foreign={HeartbeatRequest: is_present},
    replay={RaffleKey: replay_raffle, TicketKey: replay_ticket},
    deadlines={DRAW: draw, RESERVED: lapse},
    session=session,
    tasks={"raffle-shuffle": shuffled},
    answers={JURY: judged},
    before_delete=return_prizes,
    on_loaded=on_loaded,
    on_metadata=on_metadata,
    unload=unload,
    inspect=inspect,
    identify=identify,
    owned_partitions=owned_partitions,
    positions=positions,
    logged={TicketKey: bought},
    epochs={RaffleKey: ("raffle epoch", "epoch")},
    group_problems=problems,
)
