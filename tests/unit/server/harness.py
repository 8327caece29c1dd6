"""A connection on a transport that only remembers, before requests that the test answers."""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from typing import Any

from msgspec import structs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.client_session import PLAINTEXT, KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.listener import KafkaListener
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.shared_resources import SharedResources, shared_resources
from groupd.coordinator.server.slot import Requests, Slot
from groupd.coordinator.server.turns import RequestTurns
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply, JoinGroupReply, SyncGroupReply
from groupd.protocol.wire.registry import Api
from tests.support.manual_clock import ManualClock
from tests.support.raw import frame, request, string

PRODUCE, HEARTBEAT, JOIN, SYNC = 0, 12, 11, 14


def heartbeat(correlation: int) -> bytes:
    """Heartbeat v0."""
    return frame(
        request(HEARTBEAT, 0, correlation, string("g") + struct.pack(">i", 1) + string("m"))
    )


def join(correlation: int, member: str = "") -> bytes:
    """JoinGroup v0 with one protocol."""
    body = string("g") + struct.pack(">i", 10_000) + string(member) + string("consumer")
    body += struct.pack(">i", 1) + string("range") + struct.pack(">i", 1) + b"r"
    return frame(request(JOIN, 0, correlation, body))


def sync(correlation: int, member: str = "m") -> bytes:
    """SyncGroup v0 without assignments."""
    body = string("g") + struct.pack(">i", 1) + string(member) + struct.pack(">i", 0)
    return frame(request(SYNC, 0, correlation, body))


def produce(correlation: int, transactional_id: str | None = None) -> bytes:
    """Produce v3 of nothing."""
    name = struct.pack(">h", -1) if transactional_id is None else string(transactional_id)
    return frame(request(PRODUCE, 3, correlation, name + struct.pack(">hii", -1, 1000, 0)))


def correlations(data: bytes) -> list[int]:
    """The correlation ids of the replies in `data`, in order."""
    found, at = [], 0
    while at < len(data):
        length, correlation = struct.unpack_from(">ii", data, at)
        found.append(correlation)
        at += 4 + length
    assert at == len(data), "a reply is cut short"
    return found


class AlwaysValid:
    """The validity of a stored reply that stays right."""

    def renew(self) -> bool:
        return True


class FakeTransport(asyncio.Transport):
    """Keeps what is written. `hold` = the peer does not read: bytes stay in the buffer."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 4711)})
        self.connection: Connection | None = None
        self.sent = b""
        self.buffer = b""
        self.hold = False
        self.reading = True
        self.aborted = False
        self.closing = False
        self.high = 1 << 62

    def write(self, data: Any) -> None:
        assert not self.aborted
        self.buffer += bytes(data)
        if not self.hold:
            self.drain()
        elif len(self.buffer) > self.high and self.connection is not None:
            self.connection.pause_writing()

    def drain(self, count: int | None = None) -> None:
        """The peer reads `count` bytes, or all."""
        count = len(self.buffer) if count is None else count
        self.sent += self.buffer[:count]
        self.buffer = self.buffer[count:]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.high = high

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = self.closing = True


def own_resources(
    config: CoordinatorConfig | None = None,
    work: LongWork | None = None,
    clock: ManualClock | None = None,
    turns: RequestTurns | None = None,
) -> SharedResources:
    """Shared resources of a process of its own."""
    made = shared_resources(
        config or CoordinatorConfig(), LoopStalls(), work or LongWork(), clock or ManualClock()
    )
    return made if turns is None else structs.replace(made, turns=turns)


def a_listener(
    config: CoordinatorConfig,
    clock: ManualClock,
    requests: Requests,
    stats: ConnectionStats,
    shared: SharedResources,
    endpoint: KafkaEndpoint = PLAINTEXT,
) -> KafkaListener:
    connections: OpenConnections[Connection] = OpenConnections(config)
    make = partial(Connection, config, clock, requests, stats, connections, shared, endpoint)
    return KafkaListener(config, clock, stats, shared, endpoint, connections, make)


class Client:
    """The test's side of one connection. `slots`: what reached the broker, oldest first."""

    def __init__(
        self, work: LongWork | None = None, turns: RequestTurns | None = None, **config: Any
    ) -> None:
        self.clock = ManualClock()
        self.stats = ConnectionStats()
        self.config = CoordinatorConfig(**config)
        self.registry: OpenConnections[Connection] = OpenConnections(self.config)
        self.shared = own_resources(self.config, work, self.clock, turns)
        self.slots: list[Slot] = []
        self.forgotten: list[Slot] = []
        self.at_once = False
        self.transport, self.connection = self.connect()

    def connect(self) -> tuple[FakeTransport, Connection]:
        connection = Connection(
            self.config, self.clock, self, self.stats, self.registry, self.shared
        )
        transport = FakeTransport()
        transport.connection = connection
        connection.connection_made(transport)
        return transport, connection

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        self.slots.append(slot)
        if self.at_once:
            slot.send(reply_to(slot))

    def forget(self, slot: Slot) -> None:
        self.forgotten.append(slot)

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def pending(self) -> list[int]:
        """Correlation ids of the requests that reached the broker, in order."""
        return [slot.header.correlation_id for slot in self.slots]

    async def answer(self, correlation: int) -> None:
        slot = next(s for s in self.slots if s.header.correlation_id == correlation)
        slot.send(reply_to(slot))
        await asyncio.sleep(0)

    async def answer_empty(self, correlation: int) -> None:
        """Answers with no bytes at all."""
        slot = next(s for s in self.slots if s.header.correlation_id == correlation)
        send_frame(slot, b"")
        await asyncio.sleep(0)

    def received(self) -> list[int]:
        return correlations(self.transport.sent)


def reply_to(slot: Slot) -> Any:
    replies = {HEARTBEAT: HeartbeatReply, JOIN: JoinGroupReply, SYNC: SyncGroupReply}
    return replies[slot.api.key](ErrorCode.NONE)


def send_frame(slot: Slot, reply: bytes) -> None:
    """Gives a slot these bytes as its reply."""
    slot.frame = reply
    slot.done = True
    slot.connection.slot_done(slot)
