"""One connection at a time may hold more than its share, and only as long as it needs to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from groupd.coordinator.recording.connection import RecordedConnection
from groupd.coordinator.server.byte_budget import (
    FREE_BYTES,
    LOOK_MS,
    OVERDUE_MS,
    SHORT,
    Account,
    ByteBudget,
)
from groupd.coordinator.server.decoding import ITEMS_DECODED_INLINE
from tests.support.manual_clock import ManualClock
from tests.unit.server.harness import FakeTransport
from tests.unit.server.test_byte_budget import (
    BIG,
    LIMIT,
    Peer,
    a_client,
    large_join,
    turns,
    wide_heartbeat,
)
from tests.unit.server.test_decoding import describe, until_pending


def soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)


async def test_who_holds_nothing_any_more_is_not_beyond_its_share() -> None:
    """That holds too if the others hold more than the limit when it gives back what it had."""
    budget = ByteBudget(LIMIT, ManualClock())
    first, second, other = (Account(budget, soon, lambda: None) for _ in range(3))
    assert first.may_continue(BIG, lambda: None)
    first.grow(BIG)
    other.grow(2 * LIMIT)
    first.grow(-BIG)
    went: list[bool] = []
    assert second.may_continue(BIG, lambda: went.append(True))
    second.grow(BIG)
    assert not first.may_continue(BIG, lambda: went.append(True))
    other.grow(-2 * LIMIT)
    await turns()
    assert not went, "there is less than that in its share, and another one is beyond its own"
    second.grow(-BIG)
    await turns()
    assert went


async def test_who_is_within_its_share_again_is_not_beyond_it() -> None:
    """It is within its share again because others have given back what they had."""
    budget = ByteBudget(LIMIT, ManualClock())
    first, second, other = (Account(budget, soon, lambda: None) for _ in range(3))
    other.grow(LIMIT)
    assert first.may_continue(FREE_BYTES + 1000, lambda: None)
    first.grow(FREE_BYTES + 1000)
    went: list[bool] = []
    assert not second.may_continue(BIG, lambda: went.append(True))
    other.grow(-LIMIT)
    await turns()
    assert went, "the first still has its request under way, but as one of many"


async def test_who_does_not_take_what_it_was_given_is_not_beyond_its_share() -> None:
    clock = ManualClock()
    budget = ByteBudget(LIMIT, clock)
    first, second = (Account(budget, soon, lambda: None) for _ in range(2))
    assert first.may_start(BIG // 2, lambda: None)
    went: list[bool] = []
    assert not second.may_start(BIG // 2, lambda: went.append(True))
    clock.advance(LOOK_MS)
    assert went


async def test_a_frame_whose_request_takes_more_than_the_limit_starts_alone() -> None:
    """It has come in one go, so it did not ask for room before."""
    client = a_client(queued_max_request_bytes=0, socket_request_max_bytes=200_000)
    client.send(large_join(1, 150_000))
    assert client.pending() == [1]


async def test_a_request_that_waits_for_long_keeps_no_room_that_others_wait_for() -> None:
    """So many clients have a long poll that they fill the limit."""
    client = a_client()
    sitting = []
    while client.shared.budget.waiting == 0:
        sitting.append(Peer(client))
        sitting[-1].send(describe(1, 2000 + len(sitting)))
    sitting.pop().leave()
    client.send(wide_heartbeat(2))
    await turns()
    assert 2 not in client.pending()
    client.clock.advance(OVERDUE_MS - LOOK_MS)
    assert not any(peer.transport.aborted for peer in sitting)
    with capture_logs() as logs:
        client.clock.advance(2 * LOOK_MS)
    assert [peer.transport.aborted for peer in sitting] == [False] * (len(sitting) - 1) + [True]
    assert {entry["event"] for entry in logs} == {"client is too slow for the memory it holds"}


async def test_the_shorter_a_request_the_further_it_may_go_beyond_the_limit() -> None:
    """Else requests just short enough could take what is kept for the shorter ones."""
    budget = ByteBudget(LIMIT, ManualClock())
    longer = SHORT * 3 // 4
    held = 0
    while (one := Account(budget, soon, lambda: None)).may_start(longer // 2, lambda: None):
        one.grow(longer)
        held += one.counted
    assert budget.used == held
    assert budget.waiting == 1
    shorter = Account(budget, soon, lambda: None)
    assert shorter.may_start(longer // 6, lambda: None)
    shorter.grow(longer // 3)
    assert not Account(budget, soon, lambda: None).may_start(SHORT // 2, lambda: None)


async def test_long_polls_are_answered_when_others_wait_for_their_room() -> None:
    client = a_client()
    sitting: list[Peer] = []
    answered: list[Peer] = []
    while client.shared.budget.waiting == 0:
        peer = Peer(client)
        sitting.append(peer)
        peer.send(describe(1, 2000 + len(sitting)))
        if client.shared.budget.waiting == 0:
            client.slots[-1].on_memory_short(lambda peer=peer: answered.append(peer))  # type: ignore[misc]
    client.slots[0].on_memory_short(None)
    client.clock.advance(LOOK_MS)
    assert answered == sitting[1:-1]
    assert not any(peer.transport.aborted for peer in sitting)


async def test_a_request_whose_reply_is_being_made_does_not_sit_on_its_room() -> None:
    clock = ManualClock()
    budget = ByteBudget(LIMIT, clock)
    dropped: list[str] = []
    busy = Account(budget, soon, lambda: dropped.append("busy"))
    still = Account(budget, soon, lambda: dropped.append("still"))
    third = Account(budget, soon, lambda: dropped.append("third"))
    busy.grow(LIMIT)
    still.grow(LIMIT // 2)
    assert not third.may_start(BIG, lambda: None)
    clock.advance(OVERDUE_MS - 2 * LOOK_MS)
    busy.grow(1000)
    clock.advance(3 * LOOK_MS)
    assert set(dropped) == {"still"}


async def test_a_recorded_request_is_decoded_whatever_others_hold() -> None:
    """Later it would be worked on outside of its input."""
    client = a_client()
    other = Peer(client).connection.account
    assert other.may_continue(LIMIT, lambda: None)
    other.grow(LIMIT)
    traffic = cast(Any, SimpleNamespace(opened=lambda _: 1, frame=lambda *of: of[-1]()))
    connection = RecordedConnection(
        client.config,
        client.clock,
        client,
        client.stats,
        client.registry,
        client.shared,
        traffic=traffic,
    )
    connection.connection_made(FakeTransport())
    connection.data_received(describe(1, ITEMS_DECODED_INLINE + 1))
    assert client.shared.budget.waiting == 0
    await until_pending(client, 1)
    assert client.pending() == [1]
