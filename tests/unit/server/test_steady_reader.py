"""Sockets that are read without their transport: what is answered, what is handed on, and when."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.steady import ONE_REQUEST_BYTES, PIPELINED_BYTES, SteadyTable
from groupd.coordinator.server.steady_reader import READY_MAX, SteadyReader
from tests.bench.frames import consumer_heartbeat
from tests.unit.server.test_steady import Peer, parse, play

REQUEST = b"\x00\x44\x00\x01\x00\x00\x00\x00body"
REPLY = b"\x00\x00\x00\x08\x00\x00\x00\x00tail"
SETTLED = [("m0", "join"), ("m0", "own"), ("m0", "beat"), ("m0", "beat")]
BEAT = consumer_heartbeat("g", "m0", 2)


def asked(correlation: int) -> bytes:
    return b"\x00\x00\x00\x0c" + REQUEST[:4] + correlation.to_bytes(4, "big") + REQUEST[8:]


def answered(correlation: int) -> bytes:
    return REPLY[:4] + correlation.to_bytes(4, "big") + REPLY[8:]


class Lease:
    """Holds until `ended`; `began_ms`: of every session."""

    def __init__(self) -> None:
        self.ended = False
        self.began_ms: list[int] = []

    def renew(self, now_ms: int) -> bool:
        self.began_ms.append(now_ms)
        return not self.ended


class Line:
    """A connection of the reader: the client's socket, and what the owner was told."""

    def __init__(self, reader: SteadyReader, stats: ConnectionStats) -> None:
        self.client, self.socket = socket.socketpair()
        for end in (self.client, self.socket):
            end.setblocking(False)
        self.told: list[bytes | str | Exception] = []
        self.unsent_bytes = b""
        self.breaks: Exception | None = None
        self.lease = Lease()
        self.table = SteadyTable(SystemClock(), stats, self)
        self.table.put(REQUEST, REPLY, self.lease, (68, 1))
        self.table.fd = self.socket.fileno()
        self.reader = reader
        reader.add(self.table)

    def take_in(self, data: bytes) -> None:
        self.told.append(data)
        if self.breaks is not None:
            raise self.breaks

    def input_ended(self) -> None:
        self.told.append("ended")
        self.reader.remove(self.table)

    def unsent(self) -> bool:
        return bool(self.unsent_bytes)

    def write(self, data: bytes) -> None:
        self.table.direct = False
        self.unsent_bytes += data

    def failed(self, error: Exception) -> None:
        self.told.append(error)
        self.reader.remove(self.table)

    def received(self) -> bytes:
        try:
            return self.client.recv(1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.reader.remove(self.table)
        self.client.close()
        self.socket.close()


class Lines:
    def __init__(self, sessions: SystemClock | None = None) -> None:
        self.stats = ConnectionStats()
        clock = SystemClock()
        reader = SteadyReader.of(clock, sessions or clock, self.stats)
        assert reader is not None
        self.reader = reader
        self.all: list[Line] = []

    def open(self) -> Line:
        self.all.append(Line(self.reader, self.stats))
        return self.all[-1]

    async def turn(self) -> None:
        """Some rounds of the loop: everything here is local, and so ready at once."""
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
def lines() -> Iterator[Lines]:
    found = Lines()
    yield found
    for line in found.all:
        line.close()
    assert len(found.reader) == 0


async def test_a_repetition_is_answered_and_counted(lines: Lines) -> None:
    one, two = lines.open(), lines.open()
    one.client.send(asked(1))
    two.client.send(asked(2) + asked(3))
    await lines.turn()
    assert one.received() == answered(1)
    assert two.received() == answered(2) + answered(3)
    assert lines.stats.repeated == 3
    assert lines.stats.bytes_in == 3 * len(asked(1))
    assert lines.stats.bytes_out == 3 * len(answered(1))
    assert one.table.active_ms > 0
    assert not one.told


async def test_what_is_no_repetition_is_handed_on(lines: Lines) -> None:
    line = lines.open()
    line.client.send(asked(1) + b"\x00")
    await lines.turn()
    assert line.told == [asked(1) + b"\x00"]
    assert line.received() == b""
    line.client.send(asked(2))  # the reading goes on
    await lines.turn()
    assert line.received() == answered(2)


async def test_nothing_is_repeated_while_something_is_under_way(lines: Lines) -> None:
    line = lines.open()
    line.table.quiet = False
    line.client.send(asked(1))
    await lines.turn()
    assert line.told == [asked(1)]
    assert not line.lease.began_ms


async def test_a_lease_that_has_ended(lines: Lines) -> None:
    line = lines.open()
    line.lease.ended = True
    line.client.send(asked(1))
    await lines.turn()
    assert line.told == [asked(1)]
    assert lines.stats.repeated == 0


async def test_what_is_long_is_handed_on_in_one_piece(lines: Lines) -> None:
    line = lines.open()
    long = b"x" * (3 * PIPELINED_BYTES)
    # Also just as much as is read at once: before more than that was seen, and afterwards.
    pieces = [long[:ONE_REQUEST_BYTES], long, long[:ONE_REQUEST_BYTES], long[:PIPELINED_BYTES]]
    for piece in pieces:
        line.client.send(piece)
        await lines.turn()
    assert line.told == pieces


async def test_more_than_one_request_at_once(lines: Lines) -> None:
    line = lines.open()
    count = 2 * ONE_REQUEST_BYTES // len(asked(0))
    for _ in range(2):
        line.client.send(b"".join(asked(id_) for id_ in range(count)))
        await lines.turn()
        assert line.client.recv(1 << 16) == b"".join(answered(id_) for id_ in range(count))
    assert line.told == []
    assert lines.stats.repeated == 2 * count


async def test_what_the_socket_does_not_take_goes_through_the_transport_in_order(
    lines: Lines,
) -> None:
    line = lines.open()
    line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sent = 0
    while not line.unsent_bytes:
        line.client.send(asked(sent) + asked(sent + 1))
        sent += 2
        assert sent < 100_000
        await lines.turn()
    line.client.send(asked(sent))
    await lines.turn()
    received = b"".join(iter(line.received, b""))
    assert received + line.unsent_bytes == b"".join(map(answered, range(sent + 1)))
    assert lines.stats.bytes_out == len(received)  # the rest counts where it is written
    line.unsent_bytes = b""
    line.client.send(asked(7))
    await lines.turn()
    assert line.received() == answered(7), "directly again, once all has left"


async def test_the_end_of_the_stream_and_errors_are_for_the_transport(lines: Lines) -> None:
    line, other = lines.open(), lines.open()
    line.client.close()
    other.client.send(asked(1))
    await lines.turn()
    assert line.told == ["ended"]
    assert other.received() == answered(1)
    assert len(lines.reader) == 1


async def test_a_peer_that_is_gone_when_the_reply_comes(lines: Lines) -> None:
    line = lines.open()
    line.client.send(asked(1))
    line.client.close()
    await lines.turn()
    assert line.unsent_bytes == answered(1), "whoever owns the transport learns it there"
    assert line.told == ["ended"]


async def test_a_bug_with_one_connection_leaves_the_others(lines: Lines) -> None:
    first, second = lines.open(), lines.open()
    first.breaks = ValueError("bug")
    first.client.send(b"other")
    second.client.send(asked(1))
    await lines.turn()
    assert first.told == [b"other", first.breaks]
    assert second.received() == answered(1)


async def test_one_that_is_removed_by_another_in_the_same_go_is_not_read(lines: Lines) -> None:
    first, second = lines.open(), lines.open()
    first.take_in = second.take_in = (  # type: ignore[method-assign]
        lambda data: (lines.reader.remove(first.table), lines.reader.remove(second.table))
    )
    for line in (first, second):
        line.client.send(b"other")
    await lines.turn()
    unread = [line.socket.recv(10) for line in (first, second) if _readable(line.socket)]
    assert unread == [b"other"]


def _readable(end: socket.socket) -> bool:
    try:
        return bool(end.recv(10, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def test_a_descriptor_that_is_another_s_by_now(lines: Lines) -> None:
    old, new = lines.open(), lines.open()
    lines.reader.remove(new.table)
    # A transport that failed closes its socket, and the reader has not heard of it.
    new.table.fd = os.dup2(new.socket.fileno(), old.socket.detach())
    lines.reader.add(new.table)
    lines.reader.remove(old.table)
    new.client.send(asked(1))
    await lines.turn()
    assert new.received() == answered(1)
    lines.reader.remove(new.table)
    os.close(new.table.fd)


async def test_more_than_one_go(lines: Lines) -> None:
    many = [lines.open() for _ in range(READY_MAX + 10)]
    for line in many:
        line.client.send(asked(1))
    await lines.turn()
    assert all(line.received() == answered(1) for line in many)


class Behind(SystemClock):
    def monotonic_ms(self) -> int:
        return 5


async def test_sessions_begin_by_their_own_clock() -> None:
    lines = Lines(Behind())
    line = lines.open()
    line.client.send(asked(1))
    await lines.turn()
    assert line.lease.began_ms == [5]
    assert line.table.active_ms > 5
    line.close()


def readers(peer: Peer) -> int:
    reader = next(iter(peer.daemon._listener._connections)).reader  # type: ignore[union-attr]
    assert reader is not None
    return len(reader)


async def test_other_requests_of_a_connection_that_was_handed_over(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        await play(peer, SETTLED)
        assert readers(peer) == 1
        before = peer.repeated
        for id_ in range(100, 110):
            assert parse(await peer.ask(BEAT, id_))[0] == 0
        assert peer.repeated - before == 10
        # Another member joins over the same connection, and the first one is told of it.
        join = consumer_heartbeat("g", "m1", 0, ("orders",), ())
        assert parse(await peer.ask(join, 200))[0] == 0
        assert parse(await peer.ask(BEAT, 201))[2] is not None
        assert readers(peer) == 1


async def test_replies_stay_in_order_when_the_client_reads_slowly(tmp_path: Path) -> None:
    count = 60_000
    async with Peer(tmp_path, steady=True) as peer:
        await play(peer, SETTLED)
        beats = b"".join(BEAT[:8] + i.to_bytes(4, "big") + BEAT[12:] for i in range(count))
        peer._writer.write(beats)
        async with asyncio.timeout(30):
            for i in range(count):
                assert int.from_bytes((await peer.receive())[:4], "big") == i


async def test_it_forgets_connections_that_end(tmp_path: Path) -> None:
    async with Peer(tmp_path, steady=True) as peer:
        await play(peer, SETTLED)
        reader = next(iter(peer.daemon._listener._connections)).reader  # type: ignore[union-attr]
        assert reader is not None
        peer._writer.close()
        async with asyncio.timeout(10):
            while peer.daemon.connections.open:
                await asyncio.sleep(0)
        assert len(reader) == 0
