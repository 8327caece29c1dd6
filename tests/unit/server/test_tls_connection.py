"""TLS between a socket and its connection: the handshake, its limits, data in both directions."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.security.listeners import SecurityProtocol
from groupd.coordinator.security.tls import NoPrincipal
from groupd.coordinator.server.handshakes import Handshakes
from groupd.coordinator.server.shared_resources import READ_BYTES
from groupd.coordinator.server.tls_connection import SLICE, TlsConnection
from groupd.coordinator.server.turns import RequestTurns
from tests.support.certificates import client_context
from tests.support.manual_clock import ManualClock
from tests.unit.server.harness import own_resources

CA = trustme.CA()
SERVER = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CA.issue_cert("127.0.0.1").configure_cert(SERVER)
CLIENT = client_context(CA)
TIMEOUT_MS = 10_000


class Socket(asyncio.Transport):
    """Keeps what is written. `room`: bytes after which it takes no more until `taken`."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.written = b""
        self.room = 1 << 30
        self.full = False
        self.reading = True
        self.closing = self.aborted = self.ended = False

    def write(self, data: Any) -> None:
        assert not self.closing
        self.written += bytes(data)
        if len(self.written) > self.room and not self.full:
            self.full = True
            self.protocol.pause_writing()

    def taken(self) -> bytes:
        """The client reads everything."""
        data, self.written = self.written, b""
        if self.full:
            self.full = False
            self.protocol.resume_writing()
        return data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1)


class Inside:
    """The connection inside of TLS."""

    host = "/127.0.0.1"

    def __init__(self) -> None:
        self.transport: Any = None
        self.got: list[bytes] = []
        self.paused = self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def data_received(self, data: bytes) -> None:
        self.got.append(data)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(READ_BYTES))

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


class Listener:
    """In place of a `ListenerTls`."""

    context = SERVER
    listener = SimpleNamespace(protocol=SecurityProtocol.SSL)
    refusal = ""

    def principal_of(self, connection: ssl.SSLObject) -> str | None:
        if self.refusal:
            raise NoPrincipal(self.refusal)
        return None


class Peer:
    """One connection with its client."""

    def __init__(
        self,
        handshakes: Handshakes,
        listener: Listener | None = None,
        turns: RequestTurns | None = None,
    ) -> None:
        self.inside, self.socket = Inside(), Socket()
        shared = own_resources(turns=turns)
        self.tls = TlsConnection(self.inside, listener or Listener(), handshakes, shared)
        self.socket.protocol = self.tls
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = CLIENT.wrap_bio(self._in, self._out, server_hostname="127.0.0.1")
        self.tls.connection_made(self.socket)

    def shake(self) -> bytes:
        """The next message of the client; empty when it has none."""
        self._in.write(self.socket.taken())
        with suppress(ssl.SSLWantReadError):
            self.client.do_handshake()
        return self._out.read()

    def encrypted(self, data: bytes) -> bytes:
        self.client.write(data)
        return self._out.read()

    def read(self) -> bytes:
        """Everything that the client has got."""
        self._in.write(self.socket.taken())
        found = b""
        while True:
            try:
                part = self.client.read(1 << 20)
            except ssl.SSLWantReadError:
                return found
            if not part:
                return found
            found += part

    async def open(self) -> Peer:
        self.tls.data_received(self.shake())
        await asyncio.sleep(0)
        self.tls.data_received(self.shake())
        return self


class Setting:
    def __init__(self, most: int = 100, elapsed: Callable[[], int] | None = None) -> None:
        self.clock = ManualClock()
        config = CoordinatorConfig(tls_handshakes_max=most, tls_handshake_timeout_ms=TIMEOUT_MS)
        self.handshakes = Handshakes(config, self.clock, elapsed or (lambda: 0))

    def peer(self, listener: Listener | None = None, turns: RequestTurns | None = None) -> Peer:
        return Peer(self.handshakes, listener, turns)


async def test_data_goes_both_ways_once_the_handshake_is_over() -> None:
    setting = Setting()
    peer = await setting.peer().open()
    peer.tls.data_received(peer.encrypted(b"one") + peer.encrypted(b"two"))
    assert peer.inside.got == [b"onetwo"]
    peer.inside.transport.write(b"reply")
    assert peer.read() == b"reply"
    counts = setting.handshakes
    assert (counts.pending, counts.succeeded, counts.failed) == (0, 1, 0)
    assert setting.clock.next_timer_ms() is None


async def test_requests_may_come_with_the_last_message_of_the_handshake() -> None:
    peer = Setting().peer()
    peer.tls.data_received(peer.shake())
    await asyncio.sleep(0)
    last = peer.shake() + peer.encrypted(b"request")
    peer.tls.data_received(last)
    assert peer.inside.got == [b"request"]


async def test_one_byte_at_a_time() -> None:
    """SE-84."""
    peer = Setting().peer()
    for message in (peer.shake, peer.shake, lambda: peer.encrypted(b"slow")):
        for byte in message():
            peer.tls.data_received(bytes([byte]))
        await asyncio.sleep(0)
    assert peer.inside.got == [b"slow"]


async def test_the_connection_inside_counts_from_the_start() -> None:
    setting = Setting()
    peer = setting.peer()
    assert peer.inside.transport is peer.tls
    assert setting.handshakes.pending == 1
    peer.tls.connection_lost(None)
    assert peer.inside.lost
    assert (setting.handshakes.pending, setting.handshakes.failed) == (0, 1)


@pytest.mark.parametrize("messages", [0, 1])
async def test_who_does_not_finish_is_dropped(messages: int) -> None:
    """SE-12."""
    setting = Setting()
    peer = setting.peer()
    for _ in range(messages):
        peer.tls.data_received(peer.shake())
        await asyncio.sleep(0)
    setting.clock.advance(TIMEOUT_MS - 1)
    assert not peer.socket.closing
    setting.clock.advance(1)
    assert peer.socket.aborted
    assert setting.handshakes.pending == 0


async def test_no_tls_client_gets_no_answer() -> None:
    peer = Setting().peer()
    peer.tls.data_received(b"\0\0\0\x0a")
    assert peer.socket.closing
    assert peer.socket.written == b""


async def test_who_breaks_off_gets_an_alert() -> None:
    peer = Setting().peer()
    peer.tls.data_received(b"\x16\x03\x01\x00\x04junk")
    await asyncio.sleep(0)
    assert peer.socket.closing
    assert peer.socket.written.startswith(b"\x15\x03")


async def test_a_client_that_may_not_connect() -> None:
    listener = Listener()
    listener.refusal = "nobody"
    setting = Setting()
    peer = await setting.peer(listener).open()
    assert peer.socket.closing
    assert setting.handshakes.failed == 1
    peer.tls.data_received(peer.encrypted(b"request"))
    assert peer.inside.got == []


async def test_damaged_data_ends_the_connection() -> None:
    peer = await Setting().peer().open()
    data = bytearray(peer.encrypted(b"request"))
    data[-1] ^= 1
    peer.tls.data_received(bytes(data))
    assert peer.socket.aborted
    assert peer.inside.got == []


async def test_a_long_reply_is_encrypted_as_the_client_reads() -> None:
    peer = await Setting().peer().open()
    assert peer.read() == b""
    peer.socket.room = 1000
    reply = bytes(range(256)) * (5 * SLICE // 256)
    peer.inside.transport.write(reply)
    peer.inside.transport.write(b"end")
    assert len(peer.socket.written) < 2 * SLICE
    assert peer.inside.paused
    assert peer.inside.transport.get_write_buffer_size() > 4 * SLICE
    got = b""
    while peer.inside.paused:
        got += peer.read()
    got += peer.read()
    assert got == reply + b"end"
    assert peer.inside.transport.get_write_buffer_size() == 0


async def test_a_close_sends_what_was_written_and_says_goodbye() -> None:
    peer = await Setting().peer().open()
    assert peer.read() == b""
    peer.socket.room = 1000
    peer.inside.transport.write(bytes(3 * SLICE))
    peer.inside.transport.close()
    assert not peer.socket.closing
    got = 0
    while not peer.socket.closing:
        got += len(peer.read())
    got += len(peer.read())
    assert got == 3 * SLICE
    assert peer.client.read(1) == b"", "the end, as the broker has said"


async def test_an_end_behind_the_last_reply_leaves_the_client_time() -> None:
    peer = await Setting().peer().open()
    assert peer.read() == b""
    peer.socket.room = 1000
    peer.inside.transport.write(bytes(3 * SLICE))
    assert peer.inside.transport.can_write_eof()
    peer.inside.transport.write_eof()
    assert not peer.socket.ended
    got = 0
    while not peer.socket.ended:
        got += len(peer.read())
    got += len(peer.read())
    assert got == 3 * SLICE
    assert peer.client.read(1) == b"", "the end, as the broker has said"
    assert not peer.socket.closing
    peer.tls.data_received(peer.encrypted(b"late"))
    assert peer.inside.got == [b"late"]


async def test_a_client_that_says_goodbye_is_closed() -> None:
    peer = await Setting().peer().open()
    with pytest.raises(ssl.SSLWantReadError):
        peer.client.unwrap()
    peer.tls.data_received(peer._out.read())
    assert peer.socket.closing
    assert not peer.socket.aborted


async def test_reading_stops_while_the_client_is_in_line_and_when_the_connection_wants() -> None:
    peer = Setting().peer()
    peer.tls.data_received(peer.shake())
    assert not peer.socket.reading
    await asyncio.sleep(0)
    assert peer.socket.reading
    peer.inside.transport.pause_reading()
    assert not peer.socket.reading
    peer.inside.transport.resume_reading()
    assert peer.socket.reading


# The line -----------------------------------------------------------------------------------


async def test_each_turn_of_the_loop_begins_a_few() -> None:
    times = iter(range(0, 10**12, 1_500_000))
    setting = Setting(elapsed=lambda: next(times))
    peers = [setting.peer() for _ in range(5)]
    for peer in peers:
        peer.tls.data_received(peer.shake())
    begun = []
    for _ in range(3):
        await asyncio.sleep(0)
        begun.append(sum(bool(peer.socket.written) for peer in peers))
    assert begun == [2, 4, 5]


async def test_who_waits_halfway_makes_room_for_others() -> None:
    """SE-85."""
    setting = Setting(most=2)
    slow = [setting.peer() for _ in range(2)]
    for peer in slow:
        peer.tls.data_received(peer.shake())
    await asyncio.sleep(0)
    healthy = setting.peer()
    healthy.tls.data_received(healthy.shake())
    await asyncio.sleep(0)
    assert not healthy.socket.written
    setting.clock.advance(TIMEOUT_MS // 10)
    for _ in range(3):
        await asyncio.sleep(0)
    assert healthy.socket.written
    assert sorted(peer.socket.aborted for peer in slow) == [False, True]


async def test_who_leaves_the_line_is_forgotten() -> None:
    setting = Setting(most=1)
    first, second, third = (setting.peer() for _ in range(3))
    for peer in (first, second, third):
        peer.tls.data_received(peer.shake())
    second.tls.connection_lost(None)
    await asyncio.sleep(0)
    first.tls.connection_lost(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert third.socket.written
    assert not second.socket.written
