"""Input that no honest client sends: it ends its own connection and harms nobody.

Comparable cases hold for a real broker too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

import contextlib
import random
import resource
import select
import socket
import struct
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admin import create_topics, end_offsets, produce
from tests.support.daemon import Daemon
from tests.support.peer import Peer, make_peer, running
from tests.support.process import POLL_S, wait_until
from tests.support.raw import (
    API_VERSIONS,
    HEARTBEAT,
    METADATA,
    UNSUPPORTED_VERSION,
    RawConnection,
    api_versions,
    fetch,
    frame,
    metadata,
    request,
    string,
)

SILENT_CONNECTIONS = 1000
STALL_MS = 2000
SETTINGS = {
    "write_stall_timeout_ms": str(STALL_MS),
    "write_buffer_max_bytes": "1048576",
}
FLOOD_LIMIT_BYTES = 64 * 1024 * 1024

CLOSES = {
    "length 2^31-1": struct.pack(">i", 2**31 - 1),
    "length just over the limit": struct.pack(">i", 104857601),
    "length -1": struct.pack(">i", -1),
    "length -2^31": struct.pack(">i", -(2**31)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 64,
    "empty frame": frame(b""),
    "shorter than a header": frame(b"\x00\x12\x00"),
    "unknown key 9999": frame(request(9999, 0, 1)),
    "unknown key -1": frame(request(-1, 0, 1)),
    "inter-broker key LeaderAndIsr": frame(request(4, 0, 1)),
    "Heartbeat version 99": frame(request(HEARTBEAT, 99, 1)),
    "Heartbeat version -1": frame(request(HEARTBEAT, -1, 1)),
    "Heartbeat cut off": frame(request(HEARTBEAT, 0, 1, string("group") + b"\x00\x00")),
    "Heartbeat without a body": frame(request(HEARTBEAT, 0, 1)),
    "array of 2^31-1": frame(request(METADATA, 1, 1, struct.pack(">i", 2**31 - 1))),
    "string beyond the frame": frame(request(METADATA, 1, 1, struct.pack(">ih", 1, 32767) + b"x")),
    "string of length -5": frame(request(METADATA, 1, 1, struct.pack(">ih", 1, -5))),
    "null where none may be": frame(request(METADATA, 1, 1, struct.pack(">ih", 1, -1))),
}
"""Each of these must close the connection without an answer."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    with running(make_peer(tmp_path_factory.mktemp("peer"), settings=SETTINGS)) as made:
        yield made


@pytest.fixture
def neighbour(peer: Peer) -> Iterator[RawConnection]:
    """A well-behaved connection that is open all the time and must work before and after."""
    with RawConnection(peer.port) as connection:
        assert connection.works(1)
        yield connection
        assert connection.works(2)


def test_one_log_line_tells_of_a_closed_connection(tmp_path: Path) -> None:
    """It has a broker of its own: of many such lines in ten seconds the log leaves some out."""
    with running(make_peer(tmp_path)) as peer:
        if not isinstance(peer, Daemon):
            return  # A promise of groupd alone.
        with RawConnection(peer.port) as connection:
            connection.send(frame(request(31337, 0, 1)))
            assert connection.is_closed_by_peer()

        def lines() -> list[str]:
            return [line for line in peer.process.stderr().splitlines() if "31337" in line]

        wait_until(lines, 5, "a log line", peer.logs)
        assert len(lines()) == 1


@pytest.mark.parametrize("data", CLOSES.values(), ids=CLOSES.keys())
def test_what_cannot_be_answered_closes_only_its_own_connection(
    peer: Peer, neighbour: RawConnection, data: bytes
) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(data)
        assert connection.is_closed_by_peer()
    assert neighbour.works()


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_as_version_0(
    peer: Peer, version: int
) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(frame(request(API_VERSIONS, version, 5) + b"\x00\x04raw\x021\x00"))
        correlation, body = connection.reply()
        error, count = struct.unpack(">hi", body[:6])
        assert (correlation, error) == (5, UNSUPPORTED_VERSION)
        entries = {
            struct.unpack_from(">hhh", body, 6 + 6 * index)[0]: struct.unpack_from(
                ">hhh", body, 6 + 6 * index
            )[1:]
            for index in range(count)
        }
        assert len(body) == 6 + 6 * count
        low, high = entries[API_VERSIONS]
        assert low == 0
        assert high >= 4
        assert connection.works()


def test_api_versions_tells_what_it_serves(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(api_versions(9))
        _, body = connection.reply()
        count = struct.unpack(">i", body[2:6])[0]
        entries = [struct.unpack_from(">hhh", body, 6 + 6 * index) for index in range(count)]
    keys = [key for key, _, _ in entries]
    assert len(set(keys)) == len(keys)
    assert all(0 <= low <= high for _, low, high in entries)
    assert {
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        18,
        19,
        20,
        22,
        32,
        37,
        42,
        68,
        69,
    } <= set(keys)


def test_every_version_that_is_not_served_closes_the_connection(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(api_versions(9))
        _, body = connection.reply()
    count = struct.unpack(">i", body[2:6])[0]
    for index in range(count):
        key, _, high = struct.unpack_from(">hhh", body, 6 + 6 * index)
        if key == API_VERSIONS:
            continue
        with RawConnection(peer.port) as connection:
            connection.send(frame(request(key, high + 40, 1) + b"\x00" * 16))
            assert connection.is_closed_by_peer(), f"key {key} version {high + 40}"


def test_frames_cut_off_by_a_close_harm_nobody(peer: Peer, neighbour: RawConnection) -> None:
    whole = metadata(1)
    for cut in range(1, len(whole)):
        with RawConnection(peer.port) as connection:
            connection.send(whole[:cut])
    assert neighbour.works()


def test_random_bytes_harm_nobody(peer: Peer, neighbour: RawConnection) -> None:
    source = random.Random(20260)
    for _ in range(200):
        with RawConnection(peer.port) as connection, contextlib.suppress(ConnectionError):
            connection.send(frame(source.randbytes(source.randrange(200))))
    assert neighbour.works()


def test_random_bodies_of_known_requests_harm_nobody(peer: Peer, neighbour: RawConnection) -> None:
    source = random.Random(20261)
    for key in (
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        19,
        20,
        22,
        32,
        37,
        42,
        44,
        47,
        60,
        68,
    ):
        for version in range(12):
            with RawConnection(peer.port) as connection, contextlib.suppress(ConnectionError):
                connection.send(frame(request(key, version, 1, source.randbytes(64))))
    assert neighbour.works()


def test_a_request_sent_byte_by_byte_is_answered(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        for byte in api_versions(-12345):
            connection.send(bytes([byte]))
        assert connection.reply()[0] == -12345


def test_half_open_connections_harm_nobody(peer: Peer, neighbour: RawConnection) -> None:
    with contextlib.ExitStack() as stack:
        for cut in range(1, 13):
            for _ in range(8):
                connection = stack.enter_context(RawConnection(peer.port))
                connection.send(metadata(1)[:cut])
        for _ in range(20):
            half = stack.enter_context(RawConnection(peer.port))
            half.socket.shutdown(socket.SHUT_WR)
        assert neighbour.works()


def test_a_client_that_shuts_its_sending_side_does_not_stop_the_others(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(api_versions(1))
        assert connection.reply()[0] == 1
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.is_closed_by_peer()


def test_1000_silent_connections_while_a_real_client_works(
    peer: Peer, neighbour: RawConnection
) -> None:
    topic = f"silent-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as stack:
        for _ in range(SILENT_CONNECTIONS):
            stack.enter_context(RawConnection(peer.port))
        create_topics(peer.bootstrap, {topic: 2})
        produce(peer.bootstrap, {topic: 2}, 100)
        assert sum(end_offsets(peer.bootstrap, {topic: 2}).values()) == 100
        assert neighbour.works()


def test_pipelined_requests_are_answered_in_order(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        count = 200
        sent = b"".join(
            api_versions(number) if number % 2 else metadata(number) for number in range(count)
        )
        connection.send(sent)
        assert [connection.reply()[0] for _ in range(count)] == list(range(count))


def test_more_pipelined_requests_than_may_be_under_way_are_all_answered(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        count = 5000
        connection.send(b"".join(api_versions(number) for number in range(count)))
        assert [connection.reply()[0] for _ in range(count)] == list(range(count))


def test_a_slow_request_holds_back_those_behind_it(peer: Peer) -> None:
    topic = f"slow-{uuid.uuid4().hex[:8]}"
    create_topics(peer.bootstrap, {topic: 1})
    produce(peer.bootstrap, {topic: 1}, 1)  # From now on the partition has a leader that answers.
    with RawConnection(peer.port) as connection:
        started = time.monotonic()
        connection.send(fetch(1, topic, 0, 1, 700) + api_versions(2) + metadata(3))
        assert [connection.reply()[0] for _ in range(3)] == [1, 2, 3]
        assert time.monotonic() - started >= 0.6


def test_requests_before_a_bad_one_are_answered(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(api_versions(1))
        assert connection.reply()[0] == 1
        connection.send(api_versions(2) + CLOSES["unknown key 9999"])
        with contextlib.suppress(ConnectionError):
            assert connection.reply()[0] == 2
        assert connection.is_closed_by_peer()


def test_a_client_that_does_not_read_is_held_back_and_then_dropped(
    peer: Peer, neighbour: RawConnection
) -> None:
    with RawConnection(peer.port) as connection:
        connection.socket.setblocking(False)
        flood = b"".join(api_versions(number) for number in range(2000))
        sent, stuck_since = 0, time.monotonic()
        while time.monotonic() - stuck_since < 1.0:
            _, writable, _ = select.select([], [connection.socket], [], 0.1)
            if writable:
                try:
                    sent += connection.socket.send(flood[sent % len(flood) :])
                except BlockingIOError:
                    continue
                stuck_since = time.monotonic()
            assert sent < FLOOD_LIMIT_BYTES, "the peer reads on although nobody reads its replies"
        assert neighbour.works()
        if not isinstance(peer, Daemon):
            return  # Kafka holds back but does not drop such a client.
        deadline = time.monotonic() + STALL_MS / 1000 + 10
        while True:
            assert time.monotonic() < deadline, "not dropped"
            try:
                connection.socket.send(flood[sent % len(flood) :][:1])
            except BlockingIOError:
                time.sleep(POLL_S)
            except (ConnectionResetError, BrokenPipeError):
                break
