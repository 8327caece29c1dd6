"""The broker of a replay, and what each entry of a recording does to it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Any, cast

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.types import ANONYMOUS, Instant
from groupd.coordinator.daemon.parts import DaemonParts, assemble
from groupd.coordinator.faults.traffic import submit_own
from groupd.coordinator.recording.connection import RecordedConnection, VirtualTransport
from groupd.coordinator.recording.difference import (
    NO_CONNECTION,
    RequestFacts,
    about,
    facts_of,
)
from groupd.coordinator.recording.head import HARNESS, SNAPSHOT_KINDS, Restored
from groupd.coordinator.recording.interventions import Interventions
from groupd.coordinator.recording.plain import from_tree, to_bytes
from groupd.coordinator.recording.reader import BadRecording, RecordingFile, Script, TapeEntry
from groupd.coordinator.recording.replay_world import (
    OperationEnding,
    ReplayOperations,
    ReplayWorld,
    error_of,
)
from groupd.coordinator.recording.store import OutsideStore
from groupd.coordinator.recording.world import WorldClock, WorldHost
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.security.scram_credentials import ScramCredential, keyless
from groupd.coordinator.server.client_session import PLAINTEXT, KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.shared_resources import shared_resources
from groupd.storage.log import Store

log = structlog.get_logger("groupd.replay")

_LENGTH = Struct(">i")

Replied = Callable[[int, Any, "int | None", int], None]
"""Called with (request, reply, CRC-32 of the reply's frame, copies)."""


class ReplayHost(WorldHost):
    """A host whose time and identifiers come from the world. While no input is worked on, its
    clock stands at the last one."""

    def __init__(self, world: ReplayWorld) -> None:
        super().__init__(world)
        self.world_clock = WorldClock(world, lambda: world.instant)

    def clock(self, clock: Clock) -> Clock:
        return self.world_clock


class ReplayedBroker:
    """The broker of a replay. `replied` is called for every reply."""

    def __init__(
        self, file: RecordingFile, config: CoordinatorConfig, script: Script, replied: Replied
    ) -> None:
        """Raises BadRecording."""
        header = file.header
        self.file = file
        self.config = config
        # Frames come when the recording says so, so nothing is held back for lack of memory.
        self._unlimited = replace(config, queued_max_request_bytes=-1)
        self.world = ReplayWorld(str(header.get("seed")), script.timers.copy())
        self._host = ReplayHost(self.world)
        self._replied = replied
        self._outside = header.get("store") == "outside"
        self._restored = Restored(str(header.get("cluster")))
        self._operations = ReplayOperations(
            self.world, self._restored, frozenset(script.began), frozenset(script.ended)
        )
        self._store: Store = self._restored
        if self._outside:
            self._store = OutsideStore(self._restored, self._operations)
        self._start: tuple[int, int] | None = None
        self._parts: DaemonParts | None = None
        self._stage: asyncio.Task[None] | None = None
        self._connections: dict[int, RecordedConnection] = {}
        self._numbers: dict[int, list[int]] = {}
        self._registry: OpenConnections[Connection] = OpenConnections(self.config)
        self._stats = ConnectionStats()
        harness = header.get("mode") == HARNESS
        self._harness = Interventions(self, self._host.world_clock) if harness else None

    @property
    def parts(self) -> DaemonParts:
        if self._parts is None:
            raise self.file.bad("needs a broker before there is one")
        return self._parts

    @property
    def memory(self) -> Restored:
        """The store in memory, without the operations that wait for the recording."""
        return self._restored

    def events(self, group: str) -> list[dict[str, Any]]:
        return [] if self._parts is None else self._parts.broker.events.timeline.of(group)

    def close(self) -> None:
        """Cancel everything that is still running."""
        self._replied = lambda request, reply, crc, copies: None
        world = self.world
        world.run(world.number, world.instant, world.real_ms, self._cancel_all)

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self.world.loop):
            task.cancel()

    def note(self, entry: TapeEntry) -> None:
        """Take an entry that is not an input: a part of the snapshot, or an outcome. Raises
        BadRecording."""
        if entry["k"] in SNAPSHOT_KINDS:
            try:
                self._restored.take_in(entry)
            except (KeyError, TypeError, ValueError) as error:
                raise self.file.bad(f"is no part of a store: {error!r}") from error

    # Inputs -------------------------------------------------------------------------------

    def begin(self, entry: TapeEntry) -> tuple[int, int]:
        """Set the time to that of the input, and fire the timers that only this build has set.
        Returns the monotonic and the real time in milliseconds."""
        try:
            monotonic_ms, wall_ms, real_ms = map(int, entry["at"])
        except (KeyError, TypeError, ValueError):
            raise self.file.bad("has no time") from None
        if self._start is None:
            self._start = (monotonic_ms, real_ms)
        instant = Instant(monotonic_ms, wall_ms)
        for kind, now_ms in (("clock", monotonic_ms), ("loop", real_ms)):
            for fire in self.world.overdue(kind, now_ms):
                self.world.run(self.world.number, instant, real_ms, fire)
        return monotonic_ms, real_ms

    def feed(self, entry: TapeEntry) -> RequestFacts | None:
        """Work on one input. If it is a request, returns its facts. Raises BadRecording."""
        try:
            facts, act = self._act(entry)
            monotonic_ms, wall_ms, real_ms = entry["at"]
            self.world.run(entry["n"], Instant(monotonic_ms, wall_ms), real_ms, act)
        except (KeyError, TypeError, ValueError) as error:
            raise self.file.bad(f"cannot be replayed: {error!r}") from error
        return facts

    def _act(self, entry: TapeEntry) -> tuple[RequestFacts | None, Callable[[], None]]:
        kind = entry["k"]
        match kind:
            case "frame":
                return self._frame(entry)
            case "opened":
                return None, partial(self._open, entry)
            case "identified":
                return None, partial(self._identify, entry["c"], str(entry["principal"]))
            case "lost":
                return None, partial(self._lose, entry["c"])
            case "closing":
                return None, partial(self._close, entry["c"])
            case "timer":
                return None, partial(self.world.fire, entry["t"], (entry["of"], entry["due"]))
            case "stored":
                return None, partial(self._operations.end, entry["op"], _ending(entry))
            case "announce":
                return None, self._announcement(entry)
            case "ask":
                return self._ask(entry)
            case "assemble" | "add-users" | "load" | "finish" | "cancel":
                return None, partial(self._stage_of, kind, entry)
        if self._harness is None:
            raise self.file.bad(f"is of an unknown kind, {kind!r}")
        return None, self._harness.action_of(kind, entry)

    def _frame(self, entry: TapeEntry) -> tuple[RequestFacts, Callable[[], None]]:
        number, frame = entry["n"], to_bytes(entry["frame"])
        connection = self._connections[entry["c"]]
        facts = facts_of(number, self._at_ms(entry), entry["at"][1], connection.number, frame)

        def receive() -> None:
            self._numbers[connection.number].append(number)
            connection.data_received(_LENGTH.pack(len(frame)) + frame)

        return facts, receive

    def _ask(self, entry: TapeEntry) -> tuple[RequestFacts, Callable[[], None]]:
        number, version = entry["n"], int(entry["version"])
        request = from_tree(entry["request"])
        groups, member = about(request)
        api = type(request).__name__.removesuffix("Request")
        wall_ms = entry["at"][1]
        facts = RequestFacts(
            number,
            self._at_ms(entry),
            wall_ms,
            NO_CONNECTION,
            "groupd-harness",
            api,
            version,
            groups,
            member,
        )
        broker = self.parts.broker
        return facts, lambda: submit_own(
            broker, request, version, lambda reply: self._replied(number, reply, None, 1)
        )

    def _at_ms(self, entry: TapeEntry) -> int:
        assert self._start is not None
        return int(entry["at"][0]) - self._start[0]

    def unknown(self, number: int) -> RequestFacts:
        """Facts for a reply whose request is unknown."""
        return RequestFacts(number, 0, 0, NO_CONNECTION, "", "(unknown)", -1)

    # Connections --------------------------------------------------------------------------

    def _announcement(self, entry: TapeEntry) -> Callable[[], None]:
        (host, port), told = entry["node"], entry.get("listeners", ())
        listeners = tuple((str(name), str(of), int(at)) for name, of, at in told)
        return partial(self.parts.announce, str(host), int(port), listeners)

    def _open(self, entry: TapeEntry) -> None:
        number, listener = entry["c"], str(entry.get("listener", PLAINTEXT.listener))
        principal = str(entry.get("principal", ANONYMOUS))
        clock = self._host.world_clock
        connection = RecordedConnection(
            self.config,
            clock,
            self.parts.requests,
            self._stats,
            self._registry,
            shared_resources(self._unlimited, LoopStalls(), self.parts.broker.work, clock),
            KafkaEndpoint(listener, self.parts.security.access, metering=self.parts.metering),
            traffic=self,
        )
        connection.number = number
        self._connections[number] = connection
        self._numbers[number] = []
        connection.connection_made(cast(Any, VirtualTransport(str(entry["host"]))))
        if principal != ANONYMOUS:
            connection.identify(principal)

    def _identify(self, number: int, principal: str) -> None:
        self._connections[number].identify(principal)

    def _lose(self, number: int) -> None:
        self._connections.pop(number).connection_lost(None)
        del self._numbers[number]

    def _close(self, number: int) -> None:
        self._connections[number].abort()

    def opened(self, connection: RecordedConnection) -> int:
        return connection.number

    def frame(self, connection: RecordedConnection, frame: bytes, act: partial[None]) -> None:
        connection.input = self._numbers[connection.number].pop(0)
        act()

    def identified(
        self, connection: RecordedConnection, principal: str, act: partial[None]
    ) -> None:
        act()

    def lost(self, connection: RecordedConnection, act: partial[None]) -> None:
        act()

    def closing(self, connection: RecordedConnection) -> None:
        """Does nothing: in a replay, missing replies show that the connection was closed."""

    def replied(self, request: int, reply: Any, frame: bytes | bytearray, copies: int) -> None:
        self._replied(request, reply, zlib.crc32(frame) if frame else None, copies)

    # The daemon ---------------------------------------------------------------------------

    def forget_everything(self) -> None:
        """Give the next broker an empty store."""
        self._store = self._restored = Restored(self._restored.known_cluster_id)

    def _stage_of(self, kind: str, entry: TapeEntry) -> None:
        match kind:
            case "assemble":
                self._parts = None
                work = self._assemble(self._load_assignors())
            case "add-users":
                work = self.parts.security.users.add(dict(map(_user_of, entry["users"])))
            case "load":
                pairs = ((str(name), int(count)) for name, count in entry["topics"])
                work = self.parts.load(tuple(pairs))
            case "finish":
                work = self.parts.finish()
            case _:
                if self._stage is not None:
                    self._stage.cancel()
                return
        self._stage = self.world.loop.create_task(work)
        self._stage.add_done_callback(_tell)

    async def _assemble(self, assignors: Mapping[str, PartitionAssignor]) -> None:
        await self._store.start()
        wrap = None if self._harness is None else self._harness.wrap
        clock = self._host.world_clock
        parts = self._parts = await assemble(
            self.config, self._host, clock, self._store, assignors, wrap=wrap
        )
        parts.security.quotas.add_listener(self._forget_stored_replies)

    def _load_assignors(self) -> Mapping[str, PartitionAssignor]:
        try:
            return load_assignors(self.config.consumer_assignors)
        except ConfigError as error:
            raise BadRecording(f"{self.file.path}: {error}") from None

    def _forget_stored_replies(self) -> None:
        """Does what `KafkaListener` does when quotas have changed."""
        for connection in self._connections.values():
            connection.stored_replies.clear()


def _user_of(fact: Any) -> tuple[tuple[str, str], ScramCredential]:
    user, mechanism, iterations = fact
    return (str(user), str(mechanism)), keyless(int(iterations))


def _tell(stage: asyncio.Task[None]) -> None:
    if not stage.cancelled() and (error := stage.exception()) is not None:
        log.error("the broker does not start or stop", reason=str(error))


def _ending(entry: TapeEntry) -> OperationEnding:
    error = entry.get("error")
    if error is not None:
        kind, text, logs = error
        return OperationEnding(error_of(str(kind), str(text), [str(name) for name in logs]))
    gave = entry.get("gave")
    if isinstance(gave, dict):
        return OperationEnding(
            gave={str(name): int(state["next_offset"]) for name, state in gave.items()}
        )
    return OperationEnding(gave=gave if isinstance(gave, int) else None)
