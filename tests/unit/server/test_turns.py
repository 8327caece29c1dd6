"""Connections take turns in starting requests."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.runtime.loop_stalls import INTERVAL_S, LoopStalls
from groupd.coordinator.server.shared_resources import READ_BYTES
from groupd.coordinator.server.turns import BUDGET_NS, SHARE_NS, SHORT_BYTES, RequestTurns
from groupd.protocol.wire.framing import FrameSplitter
from tests.support.raw import api_versions, frame
from tests.unit.server.harness import Client, heartbeat

INTERVAL_NS = int(INTERVAL_S * 1e9)


EACH = 4
"""The requests in a share. A request takes one look at the clock here, which moves the clock on."""


class Loop:
    """Tells how old the turn of the loop is, as its timer does."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.stalls = LoopStalls(elapsed=lambda: self.now_ns)
        self.stalls.rang_ns = self.now_ns
        self.turns = RequestTurns(self.stalls, self._look)

    def _look(self) -> int:
        self.now_ns += SHARE_NS // EACH
        return self.now_ns

    def begins_a_turn(self) -> None:
        self.stalls.rang_ns = self.now_ns

    def grows_old(self) -> None:
        self.now_ns = self.stalls.rang_ns + INTERVAL_NS + BUDGET_NS + 1


def client_of(loop: Loop) -> Client:
    client = Client(turns=loop.turns)
    client.at_once = True
    return client


def many(count: int) -> bytes:
    return b"".join(heartbeat(number) for number in range(count))


async def test_as_long_as_a_turn_is_young_requests_start_as_they_come() -> None:
    loop = Loop()
    loop.stalls.rang_ns = 1 << 62
    client = client_of(loop)
    client.send(many(100))
    assert client.received() == list(range(100))


async def test_when_a_turn_grows_old_who_is_at_work_gets_in_line() -> None:
    loop = Loop()
    client = client_of(loop)
    client.send(many(1000))
    assert len(client.received()) == (INTERVAL_NS + BUDGET_NS) // (SHARE_NS // EACH) - 1
    assert not client.transport.reading, "what has come must start before more is read"


async def test_when_a_turn_is_old_each_connection_starts_its_share_in_each_turn() -> None:
    loop = Loop()
    greedy, modest = client_of(loop), client_of(loop)
    loop.grows_old()
    greedy.send(many(100))
    assert greedy.received() == []
    assert not greedy.transport.reading
    modest.send(many(1))
    assert modest.received() == [0], "a single request never waits for those of others"
    await asyncio.sleep(0)
    assert len(greedy.received()) == EACH
    modest.send(many(2 * EACH))
    assert len(modest.received()) == 1
    shares = []
    for _ in range(5):
        await asyncio.sleep(0)
        shares.append((len(greedy.received()) + len(modest.received()) - 1) // EACH)
    assert shares == [2, 3, 4, 5, 6], "one share in each turn"
    assert len(modest.received()) == 1 + 2 * EACH
    while len(greedy.received()) < 100:
        await asyncio.sleep(0)
    assert greedy.received() == list(range(100))
    assert greedy.connection.idle
    assert greedy.transport.reading


@pytest.mark.slow
async def test_a_thousand_greedy_connections_take_no_longer_of_a_turn_than_one() -> None:
    loop = Loop()
    crowd = [client_of(loop) for _ in range(1000)]
    loop.grows_old()
    for client in crowd:
        client.send(many(100))
    assert not any(client.received() for client in crowd)
    loop.begins_a_turn()
    began_ns = loop.now_ns
    await asyncio.sleep(0)
    served = [len(client.received()) for client in crowd if client.received()]
    assert served == [EACH] * len(served)
    assert 5 <= len(served) <= 20
    assert loop.now_ns - began_ns <= INTERVAL_NS + BUDGET_NS


async def test_who_has_sent_little_does_not_wait_behind_those_who_have_sent_much() -> None:
    loop = Loop()
    crowd = [client_of(loop) for _ in range(100)]
    loop.grows_old()
    for client in crowd:
        client.send(many(1000))
    modest = client_of(loop)
    modest.send(many(2 * EACH))
    assert len(many(2 * EACH)) <= SHORT_BYTES
    for _ in range(4):
        await asyncio.sleep(0)
    assert len(modest.received()) == 2 * EACH
    served = sum(len(client.received()) for client in crowd)
    assert served == 2 * EACH, "meanwhile the others get on"


async def test_who_is_alone_in_the_line_has_one_share_in_each_turn_too() -> None:
    loop = Loop()
    greedy = client_of(loop)
    loop.grows_old()
    greedy.send(many(100))
    started = []
    for _ in range(6):
        await asyncio.sleep(0)
        started.append(len(greedy.received()))
    assert started == [EACH * turn for turn in range(1, 7)]


async def test_those_in_line_divide_the_time_of_a_young_turn() -> None:
    loop = Loop()
    clients = [client_of(loop) for _ in range(3)]
    loop.grows_old()
    for client in clients:
        client.send(many(100))
    loop.begins_a_turn()
    await asyncio.sleep(0)
    served = [len(client.received()) for client in clients]
    assert min(served) > 4 * EACH
    assert max(served) - min(served) <= 1


async def test_a_connection_that_is_gone_leaves_the_line() -> None:
    loop = Loop()
    gone, other = client_of(loop), client_of(loop)
    loop.grows_old()
    gone.send(many(50))
    other.send(many(EACH + 1))
    gone.connection.abort()
    gone.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert len(gone.received()) == 0
    assert len(other.received()) == EACH


async def test_without_the_timer_nobody_waits() -> None:
    client = Client()
    client.at_once = True
    assert client.shared.turns.until(False) > 1 << 61
    client.send(many(1000))
    assert len(client.received()) == 1000


async def test_frames_are_cut_when_they_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty frames: one read may bring thousands of them."""
    loop = Loop()
    cut = []
    following = FrameSplitter.next
    monkeypatch.setattr(FrameSplitter, "next", lambda one: (cut.append(one), following(one))[1])
    loop.grows_old()
    client = client_of(loop)
    client.send(bytes(READ_BYTES))
    assert cut == []
    assert not client.transport.reading
    await asyncio.sleep(0)
    assert len(cut) == 1
    assert client.transport.aborted
    assert client.stats.malformed == 1


async def test_who_fills_a_read_has_more_most_likely_and_gets_in_line() -> None:
    loop = Loop()
    client = client_of(loop)
    client.at_once = False
    request = api_versions(1)
    loop.grows_old()
    client.send(frame(request[4:] + bytes(READ_BYTES - len(request))))
    assert client.pending() == []
    assert not client.transport.reading
    await asyncio.sleep(0)
    assert client.pending() == [1]
    assert client.transport.reading


async def test_what_comes_after_the_end_is_dropped_in_turns_too() -> None:
    loop = Loop()
    client = client_of(loop)
    client.transport.write_eof = lambda: None  # type: ignore[method-assign]
    client.transport.can_write_eof = lambda: True  # type: ignore[method-assign]
    client.connection.finish()
    loop.grows_old()
    client.send(bytes(READ_BYTES))
    assert not client.transport.reading
    await asyncio.sleep(0)
    assert client.transport.reading
    client.send(bytes(READ_BYTES))
    client.connection.abort()
    await asyncio.sleep(0)
    assert not client.transport.reading
    assert client.stats.malformed == 0


class Steps:
    """A gate that keeps the steps of a login."""

    login = True

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def takes(self, frame: bytes) -> bool:
        self.seen.append(frame)
        return True


async def test_a_step_of_a_login_waits_while_the_turn_is_used_up() -> None:
    loop = Loop()
    client, gate = client_of(loop), Steps()
    client.connection._gate = gate  # type: ignore[assignment]
    client.send(many(1))
    assert len(gate.seen) == 1
    loop.grows_old()
    client.send(many(1))
    assert len(gate.seen) == 1
    loop.stalls.rang_ns = loop.now_ns
    await asyncio.sleep(0)
    assert len(gate.seen) == 2


class Waiting:
    """Somebody in line, who writes its name down when its turn comes."""

    def __init__(self, name: str, order: list[str], host: str = "/127.0.0.1") -> None:
        self._name, self._order, self.host = name, order, host

    def start_some(self) -> None:
        self._order.append(self._name)


async def test_the_newest_of_those_with_little_does_not_wait_for_all_before_it() -> None:
    loop = Loop()
    order: list[str] = []
    for number in range(100):
        loop.turns.line_up(Waiting(f"short {number}", order), short=True)
    loop.turns.line_up(Waiting("long", order), short=False)
    loop.turns.line_up(Waiting("newest", order), short=True)
    await asyncio.sleep(0)
    assert order[:3] == ["newest", "short 0", "long"]


async def test_networks_take_turns() -> None:
    loop = Loop()
    order: list[str] = []
    waiting = [Waiting(f"crowd {number}", order) for number in range(100)]
    waiting.insert(50, Waiting("other", order, "/127.0.0.2"))
    for one in waiting:
        loop.turns.line_up(one, short=True)
    await asyncio.sleep(0)
    assert order[1] == "other"


class Greedy(Waiting):
    """It has more to do each time."""

    def __init__(self, name: str, order: list[str], turns: RequestTurns) -> None:
        super().__init__(name, order)
        self._turns = turns

    def start_some(self) -> None:
        super().start_some()
        self._turns.line_up(self, short=True)


async def test_who_gets_in_line_again_waits_for_the_next_turn() -> None:
    loop = Loop()
    order: list[str] = []
    for name in "abcd":
        loop.turns.line_up(Greedy(name, order, loop.turns), short=True)
    loop.begins_a_turn()
    await asyncio.sleep(0)
    assert sorted(order) == list("abcd")
