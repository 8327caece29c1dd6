"""The line before the thread that judges tokens: fair, bounded, and left by who is gone."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from groupd.coordinator.security.sasl.mechanisms import Authenticated, Rejected, SaslStep
from groupd.coordinator.server.token_verifier_thread import MESSAGE_BYTES, TokenVerifierThread

TOKEN_BYTES = 3072
EACH = TOKEN_BYTES + MESSAGE_BYTES


class Bench:
    """`run` lets the clients have their tokens judged; nothing is judged before `go`."""

    def __init__(self, room_for: int = 1000) -> None:
        self.thread = TokenVerifierThread(room_for * EACH)
        self.judged: list[str] = []
        self.turned_away: list[str] = []
        self._may = threading.Event()

    def run(self, *clients: str) -> None:
        for client in clients:
            self.thread.run(client, client[0], TOKEN_BYTES, self._work(client), self._told(client))

    def _work(self, client: str) -> Callable[[], SaslStep]:
        def work() -> SaslStep:
            assert self._may.wait(10)
            if client.endswith("bug"):
                raise ValueError("eyJ")
            return Authenticated(b"", client)

        return work

    def _told(self, client: str) -> Callable[[SaslStep | None], None]:
        def told(step: SaslStep | None) -> None:
            if step is None:
                self.turned_away.append(client)
            elif isinstance(step, Authenticated):
                self.judged.append(step.user)
            else:
                assert isinstance(step, Rejected)
                assert "eyJ" not in repr(step)
                self.judged.append(f"{client}: {step.reason}")

        return told

    async def go(self, left: int = 0) -> list[str]:
        """What was judged, in order, when so many are left in line."""
        self._may.set()
        for _ in range(5000):
            await asyncio.sleep(0.001)
            if self.thread.waiting <= left:
                break
        await asyncio.sleep(0.05)
        return self.judged


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.thread.close()


async def test_a_client_does_not_wait_for_all_tokens_of_another_address(bench: Bench) -> None:
    bench.run(*(f"a{number}" for number in range(100)), "b1", "c1")
    judged = await bench.go()
    assert len(judged) == 102
    assert {"b1", "c1"} <= set(judged[:4])
    assert judged[0] == "a0", "it was in the thread already"
    assert judged[1] == "a99", "the newest of its address"


async def test_who_is_gone_is_not_judged_and_keeps_nothing(bench: Bench) -> None:
    class Token:
        pass

    bench.run("a0", "a1")
    token = Token()
    left = weakref.ref(token)
    bench.thread.run("b1", "b", TOKEN_BYTES, lambda token=token: token, lambda step: None)
    del token
    bench.thread.leave("b1")
    bench.thread.leave("a0")  # in the thread: nobody listens to what comes of it
    gc.disable()
    try:
        assert left() is None
    finally:
        gc.enable()
    assert bench.thread.waiting == 1
    assert await bench.go() == ["a0", "a1"]


async def test_beyond_the_bound_the_oldest_of_the_address_with_most_is_turned_away() -> None:
    bench = Bench(room_for=5)
    bench.run("a0", *(f"a{number}" for number in range(1, 9)), "b1", "b2", "c1")
    assert bench.thread.waiting == 5
    judged = await bench.go()
    assert set(judged) == {"a0", "a7", "a8", "b1", "b2", "c1"}
    assert bench.turned_away == [f"a{number}" for number in range(1, 7)]
    bench.thread.close()


async def test_a_bug_ends_one_login_and_not_the_line(bench: Bench) -> None:
    bench.run("a0", "a-bug", "b1")
    judged = await bench.go()
    assert sorted(judged) == ["a-bug: cannot be judged: ValueError", "a0", "b1"]


async def test_after_the_end_nothing_is_judged() -> None:
    bench = Bench()
    bench.run("a0", "a1")
    bench.thread.close()
    bench.run("a2")
    assert not {"a1", "a2"} & set(await bench.go(left=2))
