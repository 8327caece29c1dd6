"""Records a running broker: each input goes into the world, one by one, and onto the tape."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import gauge, total
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.recording.connection import RecordedConnection
from groupd.coordinator.recording.difference import without_secrets
from groupd.coordinator.recording.head import Head, begin
from groupd.coordinator.recording.plain import ChecksummedBytes
from groupd.coordinator.recording.store import OutsideStore
from groupd.coordinator.recording.tape import Tape
from groupd.coordinator.recording.world import World, WorldClock, WorldHost
from groupd.coordinator.runtime.clock import Clock, monotonic_ms
from groupd.storage.log import Store
from groupd.storage.memory import MemoryStore


class RecordingCollector(Collector):
    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def collect(self) -> Iterable[Metric]:
        tape = self._tape
        yield gauge("groupd_recording_active", "1 = being recorded.", int(tape.ended is None))
        yield total("groupd_recording_bytes", "Bytes of the recording.", tape.bytes)
        yield total("groupd_recording_entries", "Entries of the recording.", tape.entries)
        yield gauge(
            "groupd_recording_queued_bytes", "Bytes that wait to be written.", tape.queued_bytes
        )


# The sockets, the clock and a store on disk are outside the world, on the real event loop.
# Everything that comes from them is an input: it gets a number and the time, is written down, and
# is worked on until it is done. The outcomes (replies, store operations that begin) are written
# after it. A store in memory is inside the world. It needs no entries, because it does the same in
# a replay.
#
# If the tape ends early, the broker goes on as before, but nothing more is written.

T = TypeVar("T")
HeadFacts = Mapping[str, object]


class RecorderWorld(World):
    """A world whose timers are set on the real clocks."""

    def __init__(self, seed: str, recorder: Recorder) -> None:
        super().__init__(seed)
        self._recorder = recorder
        self._timers = 0

    def set_timer(self, kind: str, due_ms: int, fire: Callable[[], None]) -> Callable[[], None]:
        number = self._timers
        self._timers += 1
        ring = partial(self._recorder.timer, number, kind, due_ms, fire)
        with self.real_loop(self._recorder.loop):
            return self._recorder.call_at(kind, due_ms, ring)


class Recorder(WorldHost):
    """A `Host` that records to `path`. `head`: how the broker was started. `bytes_max`: the largest
    size of the recording."""

    def __init__(self, path: str | Path, head: Head, *, bytes_max: int) -> None:
        """Raises CannotRecord."""
        self.tape = Tape(Path(path), bytes_max)
        self._head = head
        super().__init__(RecorderWorld(head.seed, self))
        self._clock: Clock | None = None
        self._world_clock: WorldClock | None = None
        self._numbers = 0
        self._connections = 0
        self._late: list[tuple[str, Callable[[], None], HeadFacts | None]] = []
        self._store: Store | None = None
        self.loop: asyncio.AbstractEventLoop
        self.connection = partial(RecordedConnection, traffic=self)

    # Inputs -------------------------------------------------------------------------------

    def input(
        self, kind: str, act: Callable[[], None], facts: HeadFacts | None = None, carries: int = 0
    ) -> None:
        """Work on an input. If another input is being worked on, this one follows right after
        it."""
        if self._world.inside:
            self._late.append((kind, act, facts))
            return
        assert self._clock is not None
        now = self._clock.now()
        real_ms = monotonic_ms()
        self._numbers += 1
        number = self._numbers
        at = (now.monotonic_ms, now.wall_ms, real_ms)
        self.tape.put({"n": number, "at": at, "k": kind, **(facts or {})}, carries)
        self._world.run(number, now, real_ms, act)
        while self._late:
            late, act, facts = self._late.pop(0)
            self.input(late, act, facts)

    def timer(self, number: int, kind: str, due_ms: int, fire: Callable[[], None]) -> None:
        self.input("timer", fire, {"t": number, "of": kind, "due": due_ms})

    def call_at(self, kind: str, due_ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        if kind == "clock":
            assert self._clock is not None
            return self._clock.call_at(due_ms, ring).cancel
        delay_s = max(0, due_ms - monotonic_ms()) / 1000
        return self.loop.call_later(delay_s, ring).cancel

    # Connections --------------------------------------------------------------------------

    def opened(self, connection: RecordedConnection) -> int:
        number = self._connections
        self._connections += 1
        host = connection.host.removeprefix("/")
        session = connection.session
        facts = {"listener": session.listener, "principal": session.access.principal}
        self.input("opened", _nothing, {"c": number, "host": host, **facts})
        return number

    def identified(
        self, connection: RecordedConnection, principal: str, act: partial[None]
    ) -> None:
        self.input("identified", act, {"c": connection.number, "principal": principal})

    def frame(self, connection: RecordedConnection, frame: bytes, act: partial[None]) -> None:
        def start() -> None:
            connection.input = self._world.number
            act()

        facts = {"c": connection.number, "frame": without_secrets(frame)}
        self.input("frame", start, facts, len(frame))

    def lost(self, connection: RecordedConnection, act: partial[None]) -> None:
        self.input("lost", act, {"c": connection.number})

    def closing(self, connection: RecordedConnection) -> None:
        if self._world.inside:
            self.tape.put({"k": "aborted", "c": connection.number})
        else:
            self.input("closing", _nothing, {"c": connection.number})

    def replied(self, request: int, reply: Any, frame: bytes | bytearray, copies: int) -> None:
        entry: dict[str, Any] = {"k": "reply", "to": request, "m": reply}
        if frame:
            entry["crc"] = ChecksummedBytes(frame)
        if copies != 1:
            entry["copies"] = copies
        self.tape.put(entry, 2 * len(frame))

    # The host -----------------------------------------------------------------------------

    def clock(self, clock: Clock) -> Clock:
        if self._world_clock is None:
            self._clock = clock
            self._world_clock = WorldClock(self._world, clock.now)
        return self._world_clock

    async def open(self, store: Store, config: CoordinatorConfig) -> Store:
        """Start the store and begin the recording. Raises CannotRecord, also if the store is too
        large."""
        self.loop = asyncio.get_running_loop()
        in_memory = isinstance(store, MemoryStore)
        if self._store is None:
            await self._begin(store, config)
        else:
            await store.start()
        if self._store not in (None, store):
            self.input("new-store", _nothing)
        self._store = store
        return store if in_memory else OutsideStore(store, self)

    async def _begin(self, store: Store, config: CoordinatorConfig) -> None:
        assert self._clock is not None
        try:
            await store.start()
            try:
                await begin(self.tape, self._head, config, store, self._clock.now())
            except BaseException:
                await store.close()
                raise
        except BaseException:
            self.tape.discard()
            raise

    async def run(
        self, name: str, work: Callable[[], Coroutine[Any, Any, T]], **facts: object
    ) -> T:
        outcome: asyncio.Future[T] = self.loop.create_future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task: asyncio.Task[T] = self._world.loop.create_task(work())
            tasks.append(task)
            task.add_done_callback(partial(_hand_over, outcome))

        self.input(name, start, facts)
        try:
            return await outcome
        except asyncio.CancelledError:
            self.input("cancel", lambda: _cancel(tasks))
            raise

    def call(self, name: str, act: Callable[[], T], **facts: object) -> T:
        results: list[T] = []
        self.input(name, lambda: results.append(act()), facts)
        return results[0]

    async def wait_for(self, name: str, work: Callable[[], Awaitable[T]], **facts: object) -> T:
        async def run() -> T:
            return await work()

        return await self.run(name, run, **facts)

    def answered(self, resolve: Callable[[Any], None]) -> Callable[[Any], None]:
        request = self._world.number

        def record(reply: Any) -> None:
            self.replied(request, reply, b"", 1)
            resolve(reply)

        return record

    def collectors(self) -> list[Collector]:
        return [RecordingCollector(self.tape)]

    async def close(self) -> None:
        await asyncio.to_thread(self.tape.close)

    # The store ----------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        return self._world.inside

    async def operate(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        ended: asyncio.Future[T] = self._world.loop.create_future()
        self.tape.put({"k": "began", "op": key})
        with self._world.real_loop(self.loop):
            task = self.loop.create_task(work())
            task.add_done_callback(partial(self._operated, key, ended))
        return await ended

    def _operated(self, key: str, ended: asyncio.Future[T], task: asyncio.Task[T]) -> None:
        facts: dict[str, object] = {"op": key}
        error = None if task.cancelled() else task.exception()
        if error is not None:
            facts["error"] = [type(error).__name__, str(error), list(getattr(error, "logs", ()))]
        elif not task.cancelled() and key.startswith(("open#", "producer-ids#", "cluster-id#")):
            facts["gave"] = task.result()
        self.input("stored", partial(_hand_over, ended, task), facts)


def _hand_over(future: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if future.done():
        if not task.cancelled():
            task.exception()  # nothing waits for the result any more
    elif task.cancelled():
        future.cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _cancel(tasks: list[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()


def _nothing() -> None:
    """Does nothing: for inputs that are only written down."""
