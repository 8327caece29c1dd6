"""Heard time: pauses of the process do not count, and deadlines wait until the sockets are read."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable

import pytest
import uvloop

from groupd.coordinator.runtime.clock import Alarm, SystemClock, pause
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.pause_aware_clock import (
    COUNTED_NS,
    IN_TIME_NS,
    INTERVAL_MS,
    PauseAwareClock,
    PauseAwareTimer,
)

MS = 1_000_000
START_MS = 1_000_000
COUNTED_MS = COUNTED_NS // MS


class Loop:
    """An event loop with a clock of its own that does what the test says: `turn` runs callbacks,
    then reads the sockets, then fires the timers that are due, in the order of their times."""

    def __init__(self) -> None:
        self.now_ms = float(START_MS)
        self.read_sockets: Callable[[], None] = lambda: None
        self._timers: list[tuple[float, int, Timer]] = []
        self._ready: list[Callable[[], None]] = []
        self._set = 0

    def elapsed(self) -> int:
        return round(self.now_ms * MS)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._ready.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self._set += 1
        timer = Timer(callback)
        self._timers.append((self.now_ms + delay_s * 1000, self._set, timer))
        return timer

    def fire_timers(self) -> None:
        due = sorted(entry for entry in self._timers if entry[0] <= self.now_ms)
        self._timers = [entry for entry in self._timers if entry not in due]
        for _, _, timer in due:
            if not timer.cancelled:
                timer.callback()

    def turn(self) -> None:
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()
        self.read_sockets()
        self.fire_timers()

    def run(self, ms: int) -> None:
        """Runs turns of a millisecond each."""
        for _ in range(ms):
            self.now_ms += 1
            self.turn()


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    return made


@pytest.fixture
def clock(loop: Loop) -> PauseAwareClock:
    stalls = LoopStalls(elapsed=loop.elapsed)
    stalls.start()
    return stalls.clock


def by_hand() -> tuple[Loop, PauseAwareClock]:
    """A clock that nobody rings but the test."""
    loop = Loop()
    return loop, PauseAwareClock(loop.elapsed)


def heard_ms(clock: PauseAwareClock) -> int:
    return clock.heard_ns() // MS - START_MS


def now_ms(clock: PauseAwareClock) -> int:
    assert clock.now().monotonic_ms == clock.monotonic_ms()
    return clock.monotonic_ms() - START_MS


def test_it_is_the_real_time_while_the_rings_come_in_time() -> None:
    loop, clock = by_hand()
    for _ in range(1000):
        loop.now_ms += IN_TIME_NS // MS
        clock.ring()
        loop.now_ms += 1
        assert now_ms(clock) == heard_ms(clock) == loop.now_ms - START_MS
        loop.now_ms -= 1
    assert clock.lost_ns == 0


def test_a_pause_counts_only_a_little_and_only_once_the_sockets_have_been_read() -> None:
    loop, clock = by_hand()
    loop.now_ms += 4
    clock.ring()
    loop.now_ms += 60_000
    assert now_ms(clock) == 4 + COUNTED_MS
    assert heard_ms(clock) == 0, "as far as the ring before the last one"
    clock.ring()
    assert heard_ms(clock) == 4, "the timers of this turn may run before the sockets are read"
    loop.now_ms += 4
    clock.ring()
    assert heard_ms(clock) == now_ms(clock) == 8 + COUNTED_MS, "what is lost is not made up"
    assert clock.lost_ns == 60_000 * MS - COUNTED_NS


def test_a_busy_loop_keeps_real_time_and_hears_one_turn_later() -> None:
    loop, clock = by_hand()
    for turn in range(1, 1001):
        loop.now_ms += COUNTED_MS
        clock.ring()
        assert now_ms(clock) == turn * COUNTED_MS
        assert heard_ms(clock) == (turn - 1) * COUNTED_MS
    assert clock.lost_ns == 0


def test_it_never_goes_back() -> None:
    loop, clock = by_hand()
    before_ms = 0
    for gap_ms in (3, 11, 99, 100, 101, 5000, 1, 60_000, 4) * 3:
        for _ in range(2):
            assert before_ms <= now_ms(clock)
            before_ms = now_ms(clock)
            loop.now_ms += gap_ms / 2
        clock.ring()


def test_the_time_between_two_lives_of_the_loop_counts() -> None:
    loop, clock = by_hand()
    loop.now_ms += 1000
    clock.ring()
    loop.now_ms += 5000
    clock.start()
    assert now_ms(clock) == 5000 + COUNTED_MS


def test_timers_are_never_early_by_heard_time_and_hardly_late(
    loop: Loop, clock: PauseAwareClock
) -> None:
    rung: list[int] = []
    due_ms = clock.monotonic_ms() + 100
    clock.call_at(due_ms, lambda: rung.append(clock.now().monotonic_ms))
    cancelled = clock.call_at(due_ms, lambda: rung.append(0))
    loop.run(95)
    cancelled.cancel()
    assert rung == []
    loop.run(10)
    assert len(rung) == 1
    assert due_ms <= rung[0] <= due_ms + 1
    clock.call_at(0, lambda: rung.append(1))
    assert len(rung) == 1, "never in the call itself"
    loop.turn()
    assert len(rung) == 2


def test_a_deadline_of_a_loop_that_rests_is_hardly_late_and_waits_for_two_rings(
    loop: Loop, clock: PauseAwareClock
) -> None:
    rang: list[int] = []
    clock.call_at(clock.monotonic_ms() + 2000, lambda: rang.append(now_ms(clock)))
    loop.run(2000)
    assert rang == []
    loop.run(INTERVAL_MS)
    assert rang == [], "what came while it rested may not have been read"
    loop.run(2 * INTERVAL_MS)
    assert len(rang) == 1


def test_a_timer_that_is_set_again_can_be_cancelled(loop: Loop, clock: PauseAwareClock) -> None:
    rung: list[int] = []
    timer = clock.call_at(clock.monotonic_ms() + 1000, lambda: rung.append(1))
    loop.run(10)
    loop.now_ms += 60_000
    loop.turn()
    timer.cancel()
    loop.run(2000)
    assert rung == []


@pytest.mark.parametrize("pause_ms", [3_000, 60_000, 10**9])
@pytest.mark.parametrize("timers_first", [False, True])
def test_a_heartbeat_that_waits_in_its_socket_is_read_before_the_session_ends(
    loop: Loop, clock: PauseAwareClock, pause_ms: int, timers_first: bool
) -> None:
    """Whatever the loop does first after the pause, and however little of the session was left."""
    session_ms, fenced = 1000, []
    deadline_ms = clock.monotonic_ms() + session_ms
    socket: list[str] = []

    def read() -> None:
        nonlocal deadline_ms
        if socket:
            socket.clear()
            deadline_ms = clock.monotonic_ms() + session_ms

    def due() -> None:
        if clock.monotonic_ms() >= deadline_ms:
            fenced.append(clock.monotonic_ms())
        else:
            alarm.at_latest(deadline_ms)

    loop.read_sockets = read
    alarm = Alarm(clock, due)
    alarm.at_latest(deadline_ms)
    loop.run(session_ms - 1)
    socket.append("heartbeat")
    loop.now_ms += pause_ms
    if timers_first:
        loop.fire_timers()
    loop.run(session_ms - COUNTED_MS - 1)
    assert not fenced, "it has its whole session, but for what the pause counts"
    loop.run(COUNTED_MS + 4 * INTERVAL_MS)
    assert len(fenced) == 1, "who is silent afterwards is fenced"


def test_many_short_stalls_shorten_no_session(loop: Loop, clock: PauseAwareClock) -> None:
    """A loop that stands still for a second again and again; the members beat when they can."""
    before_ms = clock.monotonic_ms()
    for _ in range(60):
        loop.now_ms += 1000
        loop.turn()
        loop.run(2 * INTERVAL_MS)
    passed_ms = clock.monotonic_ms() - before_ms
    assert passed_ms <= 60 * (COUNTED_MS + 4 * INTERVAL_MS)


def test_a_timer_that_is_set_among_timers_rings_after_the_next_poll(
    loop: Loop, clock: PauseAwareClock
) -> None:
    """uvloop fires such a timer in the same round if it is due by then."""
    loop.run(2 * INTERVAL_MS)
    for _ in range(3):
        loop.now_ms += 1000
        loop.fire_timers()
    assert heard_ms(clock) <= 2 * INTERVAL_MS


class Watched(PauseAwareClock):
    """A clock that sends a byte to a socket each time it rings. After two of three rings the loop
    is held up until the timer of the next one is due, in the same round of timers or before the
    sockets are polled."""

    def __init__(self, sender: socket.socket) -> None:
        super().__init__()
        self.sender = sender
        self.read = 0
        self.read_at_rings: list[int] = []

    def ring(self) -> None:
        super().ring()
        self.read_at_rings.append(self.read)
        self.sender.send(b"x")
        if len(self.read_at_rings) % 3 == 0:
            asyncio.get_running_loop().call_soon(time.sleep, 2 * INTERVAL_MS / 1000)
        elif len(self.read_at_rings) % 3 == 1:
            time.sleep(2 * INTERVAL_MS / 1000)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_arrives_before_a_ring_is_read_before_the_next_one(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> list[int]:
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        clock = Watched(sender)

        def read() -> None:
            clock.read += len(receiver.recv(100))

        asyncio.get_running_loop().add_reader(receiver, read)
        stalls = LoopStalls(clock)
        stalls.start()
        while len(clock.read_at_rings) < 30:
            await asyncio.sleep(INTERVAL_MS / 1000)
        stalls.stop()
        asyncio.get_running_loop().remove_reader(receiver)
        sender.close()
        receiver.close()
        return clock.read_at_rings[:30]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == list(range(30))


class Deadline:
    """What most owners of a timer look like: they keep it, and it calls one of their methods."""

    def __init__(self, clock: PauseAwareClock, at_ms: int) -> None:
        self.rang = asyncio.Event()
        self.timer = clock.call_at(at_ms, self.rang_now)

    def rang_now(self) -> None:
        self.rang.set()


@pytest.mark.slow
@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("how", ["rings", "is set again and rings", "is cancelled"])
def test_nothing_is_left_of_a_timer(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], how: str
) -> None:
    """In a process that serves, the collector may never look at a timer again."""

    set_again = 0

    async def use() -> None:
        nonlocal set_again
        elapsed_ns = START_MS * MS
        clock = PauseAwareClock(lambda: elapsed_ns)
        deadline = Deadline(clock, clock.monotonic_ms() + (how == "is set again and rings"))
        if how == "is cancelled":
            deadline.timer.cancel()
            return
        if how == "is set again and rings":
            elapsed_ns += 60_000 * MS  # a pause, in which nobody was heard
            first = deadline.timer._handle
            while deadline.timer._handle is first:
                await pause(SystemClock(), 1)
            set_again += 1
        while not deadline.rang.is_set():
            elapsed_ns += INTERVAL_MS * MS
            clock.ring()
            await pause(SystemClock(), 1)

    def timers() -> int:
        return sum(isinstance(one, PauseAwareTimer) for one in gc.get_objects())

    gc.collect()
    before = timers()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(use())
            assert timers() == before
        assert set_again == (how == "is set again and rings")
    finally:
        gc.enable()
