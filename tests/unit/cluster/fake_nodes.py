"""Other nodes of a cluster without sockets: they stand behind `create_connection` of the running
loop, read what is sent, and answer when a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from groupd.coordinator.cluster.peers import PeerAddress, PeerLimits, Peers
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.security.inter_broker import UNPROTECTED, PeerSecurity
from groupd.protocol.wire.apis import API_BY_KEY, API_RANGES
from groupd.protocol.wire.framing import FrameSplitter
from groupd.protocol.wire.header import parse_request_header, reply_frame, reply_header_version
from groupd.protocol.writer import Writer
from groupd.storage.units import Unit
from groupd.testing.clock import ManualClock

SELF = 1


class Ownership:
    """`leaders`: the node of each unit; of all others there is none."""

    def __init__(self, **_: Any) -> None:
        self.leaders: dict[Unit, int] = {}

    def leader(self, unit: Unit) -> int | None:
        return self.leaders.get(unit)

    def serves(self, unit: Unit) -> bool:
        return self.leaders.get(unit) == SELF

    def may_answer(self) -> bool:
        return True

    async def answering(self, since_ms: int) -> bool:
        return True

    def epoch(self, unit: Unit, since: int = 0) -> int:
        return 0

    def only_leader(self) -> tuple[int, int] | None:
        return None


class FakeNode:
    """`requests`: what has come, without ApiVersions. `answer(request)` makes a reply. After `hold`
    nothing is answered until `release`."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.requests: list[Any] = []
        self.connections: list[FakeTransport] = []
        self.silent = False
        """Does not even take connections."""
        self._held: list[Callable[[], None]] | None = None

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for send in held:
            send()

    @property
    def open(self) -> int:
        return sum(not one.closed for one in self.connections)

    def cut(self) -> None:
        for one in self.connections:
            if not one.closed:
                one.closed = True
                one.protocol.connection_lost(ConnectionResetError())

    def take(self, transport: FakeTransport, frame: bytes) -> None:
        header = parse_request_header(frame, API_BY_KEY)
        api, version = API_BY_KEY[header.api_key], header.api_version
        if header.api_key == 18:
            body = Writer(False)
            body.int16(0)
            for one in body.structs(API_RANGES):
                for number in (one.api_key, one.min_version, one.max_version):
                    body.int16(number)
            transport.answer(reply_frame(header.correlation_id, 0, bytes(body.buffer)))
            return
        request = api.decode(frame, header.body_offset, version, 1 << 20)
        self.requests.append(request)

        def send() -> None:
            encoded = api.encode(self.answer(request), version, 0)
            head = reply_header_version(api, version)
            transport.answer(bytes(reply_frame(header.correlation_id, head, encoded)))

        if self._held is None:
            send()
        else:
            self._held.append(send)


class FakeTransport:
    def __init__(self, node: FakeNode, protocol: Any) -> None:
        self.node, self.protocol = node, protocol
        self.closed = False
        self._splitter = FrameSplitter(1 << 20)

    def write(self, data: bytes) -> None:
        self._splitter.feed(bytes(data))
        for frame in iter(self._splitter.next, None):
            self.node.take(self, frame)

    def answer(self, frame: bytes | bytearray) -> None:
        asyncio.get_running_loop().call_soon(self._deliver, bytes(frame))

    def _deliver(self, frame: bytes) -> None:
        if not self.closed:
            self.protocol.data_received(frame)

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class World:
    """This node's `peers`, other nodes by their ids, and a clock that stands still."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ownership = Ownership()
        self.nodes: dict[int, FakeNode] = {}
        self.addresses: dict[int, PeerAddress] = {}
        self.tried = 0
        self.peers = self.make_peers()

    def make_peers(
        self, security: PeerSecurity = UNPROTECTED, limits: PeerLimits | None = None
    ) -> Peers:
        self.peers = Peers(
            CoordinatorConfig(node_id=SELF),
            self.clock,
            self.addresses.get,
            security,
            limits or PeerLimits(),
        )
        return self.peers

    def add(self, node_id: int, answer: Callable[[Any], Any]) -> FakeNode:
        self.nodes[node_id] = FakeNode(answer)
        self.addresses[node_id] = PeerAddress("node", node_id)
        return self.nodes[node_id]

    async def connect(self, factory: Callable[[], Any], _: str, port: int, **__: Any) -> Any:
        self.tried += 1
        node = self.nodes.get(port)
        if node is None:
            raise ConnectionRefusedError(111, "Connection refused")
        if node.silent:
            await asyncio.Event().wait()
        protocol = factory()
        transport = FakeTransport(node, protocol)
        node.connections.append(transport)
        protocol.connection_made(transport)
        return transport, protocol


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", made.connect)
    return made


async def settle(turns: int = 40) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
