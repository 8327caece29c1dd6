"""One bound for what all connections hold: who waits, who goes on, who is dropped."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.recording.connection import RecordedSlot
from groupd.coordinator.runtime.process_tuning import give_back_large_blocks
from groupd.coordinator.server.byte_budget import (
    FREE_BYTES,
    LOOK_MS,
    OVERDUE_MS,
    SHORT,
    Account,
    ByteBudget,
    largest_share,
    limit_of,
)
from groupd.coordinator.server.connection import Connection
from groupd.protocol.wire.apis import API_BY_KEY
from tests.support.manual_clock import ManualClock
from tests.support.raw import frame, request, string
from tests.unit.server.harness import (
    HEARTBEAT,
    Client,
    FakeTransport,
    heartbeat,
    join,
    produce,
    send_frame,
)
from tests.unit.server.test_decoding import describe, until_pending
from tests.unit.server.test_long_replies import DESCRIBE, LONG, ask

LIMIT = 1_200_000
LARGEST = 700_000
BIG = 650_000
"""The bytes of a frame: more than a share, and two of them are more than the limit."""


def a_client(**config: Any) -> Client:
    sizes = {"queued_max_request_bytes": LIMIT, "socket_request_max_bytes": LARGEST}
    return Client(**{**sizes, **config})


def large(correlation: int, size: int = BIG) -> bytes:
    """A Produce of nothing, followed by bytes that make it a malformed one of this size."""
    payload = produce(correlation)[4:]
    return frame(payload + bytes(size - len(payload)))


def large_join(correlation: int, size: int) -> bytes:
    """JoinGroup v0 with this many bytes of subscription."""
    payload = join(correlation)[4:-5] + struct.pack(">i", size) + bytes(size)
    return frame(payload)


def wide_heartbeat(correlation: int) -> bytes:
    """Heartbeat v0 of 30 KB."""
    member = struct.pack(">h", 30_000) + b"m" * 30_000
    return frame(request(HEARTBEAT, 0, correlation, string("g") + struct.pack(">i", 1) + member))


class Peer:
    """One more connection of `client`."""

    def __init__(self, client: Client) -> None:
        self.transport: FakeTransport
        self.connection: Connection
        self.transport, self.connection = client.connect()
        self.send = self.connection.data_received

    @property
    def reading(self) -> bool:
        return self.transport.reading

    def leave(self) -> None:
        self.connection.abort()
        self.connection.connection_lost(None)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# Frames -------------------------------------------------------------------------------------


async def test_a_large_frame_is_only_read_on_when_there_is_room_for_all_of_it() -> None:
    client = a_client()
    budget = client.shared.budget
    first, second, third = (Peer(client) for _ in range(3))
    first.send(large(1)[:100_000])
    assert first.reading, "it may go beyond its share while nobody else does"
    assert budget.used == BIG - FREE_BYTES
    second.send(large(2)[:100_000])
    assert not second.reading, "there is no room for all of it"
    third.send(large(3, 70_000)[:60])
    third.send(bytes(69_000))
    assert third.reading, "a quarter of the limit is kept for what is short"
    third.leave()
    assert budget.waiting == 1
    client.at_once = True
    client.send(heartbeat(4))
    assert client.received() == [4], "small requests need no room"
    first.leave()
    await turns()
    assert second.reading
    second.leave()
    assert (budget.used, budget.waiting) == (0, 0)


async def test_an_eighth_of_what_is_left_for_each() -> None:
    client = a_client()
    budget = client.shared.budget
    peers = [Peer(client) for _ in range(40)]
    for peer in peers:
        peer.send(large(1, 140_000)[:70_000])
    reading = [peer for peer in peers if peer.reading]
    assert 1 <= len(reading) <= 7
    assert budget.used <= LIMIT
    assert budget.waiting == len(peers) - len(reading)
    for peer in peers:
        peer.leave()
    await turns()
    assert (budget.used, budget.waiting) == (0, 0)


async def test_a_frame_of_the_largest_size_is_taken_whatever_the_limit() -> None:
    client = a_client(queued_max_request_bytes=0)
    client.send(large_join(1, LARGEST - 100)[:300_000])
    assert client.transport.reading
    client.send(large_join(1, LARGEST - 100)[300_000:])
    assert client.pending() == [1]
    await client.answer(1)
    assert client.received() == [1]
    assert client.shared.budget.used == 0


async def test_without_a_limit_everything_is_taken() -> None:
    client = a_client(queued_max_request_bytes=-1)
    peers = [Peer(client) for _ in range(40)]
    for peer in peers:
        peer.send(large(1)[:-1])
    assert all(peer.reading for peer in peers)


async def test_while_others_wait_a_frame_must_come_to_its_end_in_time() -> None:
    client = a_client()
    slow, waiting = Peer(client), Peer(client)
    slow.send(large(1)[:100_000])
    client.clock.advance(10 * OVERDUE_MS)
    assert not slow.transport.aborted, "nobody needs its room"
    waiting.send(large(2)[:100_000])
    with capture_logs() as logs:
        client.clock.advance(1000)
    assert slow.transport.aborted
    assert [line["event"] for line in logs] == ["client is too slow for the memory it holds"]
    assert client.stats.overdue == 1
    slow.connection.connection_lost(None)
    await turns()
    assert waiting.reading
    client.clock.advance(10 * OVERDUE_MS)
    assert not waiting.transport.aborted


async def test_who_holds_most_is_dropped_first_one_each_second() -> None:
    client = a_client()
    modest, greedy, waiting = Peer(client), Peer(client), Peer(client)
    modest.send(large(1, 80_000)[:70_000])
    greedy.send(large(1)[:100_000])
    waiting.send(large(1)[:100_000])
    client.clock.advance(OVERDUE_MS)
    assert (modest.transport.aborted, greedy.transport.aborted) == (False, True)


# Requests -----------------------------------------------------------------------------------


async def test_requests_that_wait_for_their_answer_count_with_their_items() -> None:
    client = a_client()
    budget = client.shared.budget
    client.send(describe(1, 3000))
    assert client.pending() == [1]
    assert budget.used > 3000 * 100
    second = Peer(client)
    second.send(describe(2, 3000))
    third = Peer(client)
    third.send(describe(3, 3000))
    fourth = Peer(client)
    fourth.send(describe(4, 3000))
    assert client.pending() == [1, 2]
    fourth.leave()
    await client.answer_empty(1)
    await client.answer_empty(2)
    await turns()
    assert client.pending() == [1, 2, 3]
    await client.answer_empty(3)
    assert budget.used == 0


async def test_a_connection_with_too_much_under_way_starts_nothing_more() -> None:
    client = a_client()
    client.send(b"".join(wide_heartbeat(number) for number in range(1, 9)))
    assert client.pending() == [1, 2, 3]
    assert not client.transport.reading
    for number in range(1, 9):
        assert number in client.pending()
        await client.answer(number)
        await turns()
    assert client.received() == list(range(1, 9))
    assert client.shared.budget.used == 0


async def test_a_long_request_is_decoded_when_there_is_room_for_what_it_may_hold() -> None:
    client = a_client()
    first = Peer(client)
    first.send(large(1)[:100_000])
    client.send(describe(2, 5000))
    await turns(20)
    assert client.pending() == []
    first.leave()
    await until_pending(client, 1)
    assert client.pending() == [2]
    await client.answer_empty(2)
    assert client.shared.budget.used == 0


@pytest.mark.slow
async def test_what_a_client_leaves_behind_counts_until_it_is_done() -> None:
    client = a_client()
    budget = client.shared.budget
    peer = Peer(client)
    peer.send(large_join(1, 100_000))
    assert client.pending() == [1]
    held = budget.used
    assert held > 100_000
    peer.leave()
    del peer
    gc.collect()
    assert budget.used == held
    (slot,) = client.forgotten
    slot.forget()
    assert (slot.request, slot.request_frame) == (None, b""), "nobody needs them"
    client.forgotten.clear()
    client.slots.clear()
    del slot
    gc.collect()
    assert budget.used == 0


# Replies ------------------------------------------------------------------------------------


async def test_the_records_of_a_fetch_take_what_is_left_but_never_nothing() -> None:
    client = a_client()
    client.send(heartbeat(1))
    slot = client.slots[0]
    share = largest_share(client.config)
    assert slot.reserve_bytes(10**9) in range(share - 1000, share + 1)
    slot.set_reserved_bytes(0)
    assert slot.reserve_bytes(1000) == 1000
    peer = Peer(client)
    peer.send(large(1)[:100_000])
    assert slot.reserve_bytes(10**9) < share // 2
    client.shared.budget.used += LIMIT
    assert slot.reserve_bytes(10**9) == FREE_BYTES


async def test_unread_replies_count_and_must_be_read_while_others_wait() -> None:
    client = a_client(write_buffer_max_bytes=1024)
    client.transport.hold = True
    client.send(heartbeat(1))
    send_frame(client.slots[0], bytes(700_000))
    assert client.shared.budget.used == 700_000 - FREE_BYTES
    waiting = Peer(client)
    waiting.send(large(2)[:100_000])
    assert not waiting.reading
    client.clock.advance(OVERDUE_MS)
    assert client.transport.aborted
    client.connection.connection_lost(None)
    await turns()
    assert waiting.reading


async def test_unread_replies_give_their_room_back_when_they_are_read() -> None:
    client = a_client(write_buffer_max_bytes=1024)
    client.transport.hold = True
    client.send(heartbeat(1))
    send_frame(client.slots[0], bytes(700_000))
    waiting = Peer(client)
    waiting.send(large(2)[:100_000])
    client.transport.drain()
    client.connection.resume_writing()
    await turns()
    assert waiting.reading
    assert client.shared.budget.used == BIG - FREE_BYTES


async def test_a_client_must_take_a_quarter_of_its_replies_in_each_stall_timeout() -> None:
    client = a_client(write_buffer_max_bytes=1024, write_stall_timeout_ms=5000)
    client.transport.hold = True
    client.send(heartbeat(1))
    send_frame(client.slots[0], bytes(400_000))
    for _ in range(3):
        client.transport.drain(100_010)
        client.clock.advance(5000)
        assert not client.transport.aborted
    client.transport.drain(99_000)
    client.clock.advance(5000)
    assert client.transport.aborted


async def test_a_long_reply_waits_for_room_and_then_goes_on() -> None:
    client = a_client()
    holder = Peer(client)
    holder.send(large(1)[:100_000])
    client.shared.budget.used += LIMIT
    client.send(ask(DESCRIBE, 0, 2))
    client.slots[0].send(LONG[DESCRIBE])
    await turns(50)
    assert client.received() == []
    assert client.shared.budget.waiting == 1
    client.shared.budget.used -= LIMIT
    holder.leave()
    async with asyncio.timeout(10):
        while not client.transport.sent:
            await asyncio.sleep(0)
    assert client.received() == [2]
    assert client.shared.budget.used == 0


def test_who_lines_up_again_sets_no_second_timer() -> None:
    clock = ManualClock()
    budget = ByteBudget(LIMIT, clock)
    budget.used = LIMIT
    account = Account(budget, lambda callback: None, lambda: None)
    asked = 0

    def go() -> None:
        nonlocal asked
        asked += 1
        budget.line_up(account, SHORT // 2, go, begun=False)

    budget.line_up(account, SHORT // 2, go, begun=False)
    for seconds in range(1, 5):
        clock.advance(LOOK_MS)
        assert asked == seconds


# Settings -----------------------------------------------------------------------------------


def test_there_is_always_room_for_the_largest_request() -> None:
    config = CoordinatorConfig(queued_max_request_bytes=5000, socket_request_max_bytes=7000)
    assert limit_of(config) == 7000


def test_a_recorded_fetch_gets_the_same_room_whatever_others_hold() -> None:
    client = a_client()
    connection = cast(Any, SimpleNamespace(largest_share=largest_share(client.config), input=1))
    slot = RecordedSlot(connection, API_BY_KEY[HEARTBEAT], cast(Any, None), b"")
    client.shared.budget.used += LIMIT
    assert slot.reserve_bytes(10**9) == largest_share(client.config)
    assert slot.reserve_bytes(1000) == 1000
    slot.set_reserved_bytes(1000)


def test_large_blocks_may_be_asked_back_on_any_system(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back_large_blocks()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back_large_blocks()
