"""Streams of events: one look serves all listeners, slow ones miss nothing, all hear of a source
that is away, and nobody listening means no work."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import sqrt

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.admin.http_messages import Refusal, StreamEvent, text
from groupd.coordinator.console.live import (
    LOOK_MS,
    PERIOD_MS,
    RECENT_BYTES,
    RECENT_MAX,
    SHARE,
    STALE_AFTER,
    LiveTopics,
    event,
)
from tests.support.loop_turns import until
from tests.support.manual_clock import ManualClock

AWAY = Refusal(text("the shard is loading", 503))
STALE = b'event: stale\ndata: {"told":"the shard is loading"}\n\n'
FRESH = b"event: fresh\ndata: {}\n\n"


class Numbers:
    """A source whose events are numbers; `new` is what the next look finds."""

    def __init__(self, tells_changes: bool = False, cost_ms: float = 0.0) -> None:
        self.tells_changes = tells_changes
        self.cost_ms = cost_ms
        self.new: bytes | None = b"0"
        self.now = b""
        self.looks = 0
        self.broken: Exception | None = None

    async def look(self) -> StreamEvent | None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        self.now = self.new or self.now
        return None if self.new is None else (memoryview(self.new),)

    async def whole(self) -> StreamEvent:
        await asyncio.sleep(0)
        return (memoryview(b"all up to "), memoryview(self.now))


class Bench:
    def __init__(self, *, tells_changes: bool = False) -> None:
        self.clock = ManualClock()
        self.topics = LiveTopics(self.clock)
        self.source = Numbers(tells_changes)

    async def listen(
        self, key: str = "numbers", source: Numbers | None = None
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.topics.events(key, source or self.source)) as events:
            async for one in events:
                yield b"".join(one)

    async def look(self, new: bytes | None) -> None:
        """The next look, which finds `new`; afterwards the topic, the only one, rests again."""
        self.source.new = new
        before = self.source.looks
        await until(lambda: self.clock.next_timer_ms() is not None)
        self.clock.advance((self.clock.next_timer_ms() or 0) - self.clock.monotonic_ms())
        await until(lambda: self.source.looks > before and self.clock.next_timer_ms() is not None)

    async def fail(self, error: Exception, times: int) -> None:
        """The next looks fail."""
        self.source.broken = error
        for _ in range(times):
            await self.look(b"never seen")
        self.source.broken = None


async def test_all_listeners_get_the_same_events_of_one_look() -> None:
    bench = Bench()
    first, second = bench.listen(), bench.listen()
    assert [await anext(first), await anext(second)] == [b"all up to 0"] * 2
    assert (bench.source.looks, bench.topics.count) == (1, 1)
    await bench.look(b"1")
    assert [await anext(first), await anext(second)] == [b"1"] * 2
    await bench.look(None)
    await bench.look(b"2")
    assert [await anext(first), await anext(second)] == [b"2"] * 2
    assert bench.source.looks == 4
    await bench.topics.close()


class Body(bytearray):
    """What an event is made of, seen by weak references."""


async def test_a_listener_keeps_nothing_of_what_it_has_sent() -> None:
    """There are many listeners, and snapshots have megabytes."""
    bench = Bench()
    kept: list[weakref.ref[Body]] = []

    async def whole() -> StreamEvent:
        body = Body(b"everything")
        kept.append(weakref.ref(body))
        return (memoryview(body),)

    bench.source.whole = whole  # type: ignore[method-assign]
    async with aclosing(bench.topics.events("numbers", bench.source)) as events:
        assert await anext(events) == (b"everything",)
        waiting = asyncio.ensure_future(anext(events))
        await until(lambda: bench.clock.next_timer_ms() is not None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert [one() for one in kept] == [None]
        await bench.look(b"1")
        assert await waiting == (b"1",)


async def test_what_is_shown_as_before_is_shown_again_once_looks_succeed() -> None:
    """A group that has gone to another node is the same picture, but `stale` came in between."""
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    await bench.fail(AWAY, STALE_AFTER)
    assert await anext(listener) == STALE
    await bench.look(None)
    assert await anext(listener) == b"all up to 0"
    await bench.topics.close()


async def test_a_look_that_failed_is_repeated_soon_until_listeners_are_told() -> None:
    bench = Bench()
    bench.source.cost_ms = 10_000
    listener = bench.listen()
    await anext(listener)
    rest_ms = (bench.clock.next_timer_ms() or 0) - bench.clock.monotonic_ms()
    assert rest_ms > 100 * PERIOD_MS
    await bench.fail(AWAY, 1)
    began_ms = bench.clock.monotonic_ms()
    await bench.fail(AWAY, STALE_AFTER - 1)
    assert await anext(listener) == STALE
    assert bench.clock.monotonic_ms() - began_ms == (STALE_AFTER - 1) * PERIOD_MS
    assert (bench.clock.next_timer_ms() or 0) - bench.clock.monotonic_ms() == rest_ms
    await bench.topics.close()


async def test_a_listener_that_missed_an_event_gets_everything() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    await bench.look(b"1")
    await bench.look(b"2")
    assert await anext(listener) == b"all up to 2"
    await bench.look(b"3")
    assert await anext(listener) == b"3"
    await bench.topics.close()


async def test_a_listener_that_missed_changes_gets_them_one_after_the_other() -> None:
    bench = Bench(tells_changes=True)
    listener = bench.listen()
    await anext(listener)
    for number in (b"1", b"2", b"3"):
        await bench.look(number)
    assert [await anext(listener) for _ in range(3)] == [b"1", b"2", b"3"]
    await bench.topics.close()


async def test_only_so_many_changes_are_kept() -> None:
    bench = Bench(tells_changes=True)
    listener = bench.listen()
    await anext(listener)
    for number in range(RECENT_MAX + 1):
        await bench.look(b"%d" % number)
    assert await anext(listener) == b"all up to %d" % RECENT_MAX
    await bench.topics.close()


async def test_changes_that_are_too_long_to_be_kept_are_replaced_by_everything() -> None:
    bench = Bench(tells_changes=True)
    listener = bench.listen()
    await anext(listener)
    long = b"x" * (RECENT_BYTES + 1)
    for number in (b"1", long):
        await bench.look(number)
    assert await anext(listener) == b"all up to " + long
    await bench.look(b"2")
    assert await anext(listener) == b"2"
    await bench.topics.close()


async def test_nobody_listens_nobody_looks() -> None:
    bench = Bench()
    first, second = bench.listen(), bench.listen()
    await anext(first)
    await anext(second)
    await first.aclose()
    await bench.look(b"1")
    assert await anext(second) == b"1"
    await second.aclose()
    looks = bench.source.looks
    for _ in range(10):
        bench.clock.advance(100_000)
        await asyncio.sleep(0)
    assert (bench.source.looks, bench.topics.count) == (looks, 0)
    again = bench.listen()
    assert await anext(again) == b"all up to 1"
    assert bench.source.looks == looks + 1
    await bench.topics.close()


async def test_a_source_that_is_away_for_a_moment_is_asked_again() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    await bench.fail(AWAY, STALE_AFTER - 1)
    await bench.look(b"2")
    assert await anext(listener) == b"2"
    await bench.topics.close()


@pytest.mark.parametrize("tells_changes", [False, True])
@pytest.mark.parametrize("found", [None, b"2"])
async def test_listeners_are_told_that_what_they_know_is_old_and_when_that_is_over(
    found: bytes | None, tells_changes: bool
) -> None:
    bench = Bench(tells_changes=tells_changes)
    listener, missed_it = bench.listen(), bench.listen()
    await anext(listener)
    await anext(missed_it)
    with capture_logs() as logs:
        await bench.fail(AWAY, STALE_AFTER + 5)
    assert await anext(listener) == STALE
    newcomer = bench.listen()
    assert [await anext(newcomer), await anext(newcomer)] == [b"all up to 0", STALE]
    assert len(logs) == 1
    await bench.look(found)
    over = found or (FRESH if tells_changes else b"all up to 0")
    assert await anext(listener) == await anext(newcomer) == over
    if tells_changes:
        assert [await anext(missed_it), await anext(missed_it)] == [STALE, over]
    else:
        assert await anext(missed_it) == b"all up to " + (found or b"0")
    await bench.look(b"3")
    assert [await anext(one) for one in (listener, newcomer, missed_it)] == [b"3"] * 3
    await bench.topics.close()


async def test_what_is_not_foreseen_is_logged_with_its_place_and_not_shown() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    error = KeyError("a secret")
    with capture_logs() as logs:
        await bench.fail(error, STALE_AFTER)
    assert await anext(listener) == STALE.replace(
        b"the shard is loading", b"internal error; see the log"
    )
    assert [one["exc_info"] for one in logs] == [error]
    await bench.topics.close()


async def test_a_first_look_that_fails_is_told_to_who_opens_the_stream() -> None:
    bench = Bench()
    bench.source.broken = AWAY
    with pytest.raises(Refusal):
        await anext(bench.listen())
    assert bench.topics.count == 0
    bench.source.broken = None
    listener = bench.listen()
    assert await anext(listener) == b"all up to 0"
    await bench.topics.close()


async def test_many_pages_of_groups_do_not_stop_the_list_and_take_only_their_share() -> None:
    bench = Bench()
    costs = {"groups": 150.0, **{f"group {number}": 0.0 for number in range(100)}}
    listeners = [bench.listen(key, Numbers(cost_ms=cost_ms)) for key, cost_ms in costs.items()]
    for one in listeners:
        await anext(one)
    topics = bench.topics._topics
    rests = {key: bench.topics.rest_ms(topic) for key, topic in topics.items()}
    assert rests["groups"] < 75_000
    assert max(rests.values()) == rests["groups"]
    taken = sum((LOOK_MS + costs[key]) / rest for key, rest in rests.items())
    assert taken == pytest.approx(1 / SHARE, rel=0.01)
    await bench.topics.close()


async def test_a_few_open_pages_are_looked_at_every_second() -> None:
    bench = Bench()
    listeners = [bench.listen(str(number), Numbers()) for number in range(3)]
    for one in listeners:
        await anext(one)
    assert SHARE * sqrt(LOOK_MS) * 3 * sqrt(LOOK_MS) < PERIOD_MS
    assert {bench.topics.rest_ms(one) for one in bench.topics._topics.values()} == {PERIOD_MS}
    await bench.topics.close()


async def test_closing_ends_all_streams() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    waiting = asyncio.ensure_future(anext(listener, None))
    await asyncio.sleep(0)
    await bench.topics.close()
    assert await waiting is None


def test_an_event_is_one_line_of_data() -> None:
    assert b"".join(event("changes", b'{"a":', b"1}")) == b'event: changes\ndata: {"a":1}\n\n'
