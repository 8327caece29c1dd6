"""What strangers send costs no more than is looked at: a started broker reads and keeps little of
it (ADR 44). The attacks in full are rows of `make attack`."""

from __future__ import annotations

import contextlib
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.bench.proc import resident_bytes
from tests.support.certificates import client_context, keystore
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.raw import RawConnection

KB = 1024
READ = 16 * KB
"""What one read brings."""

ROOM = 1 << 20
SETTINGS = {"queued.max.request.bytes": str(ROOM), "socket.request.max.bytes": str(ROOM)}


CA = trustme.CA()
HOST = "127.0.0.1"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    certificate = keystore(tmp_path / "broker.pem", CA.issue_cert(HOST))
    listeners = f"PLAINTEXT://{HOST}:0,SSL://{HOST}:0"
    settings = {"listeners": listeners, "ssl.keystore.location": str(certificate)}
    made = Daemon(tmp_path, settings=settings | SETTINGS)
    with running(made):
        yield made


def send(connection: RawConnection, data: bytes) -> None:
    """Sends as much as the broker takes."""
    connection.socket.settimeout(0.05)
    with contextlib.suppress(OSError):
        connection.socket.sendall(data)


def received(daemon: Daemon) -> float:
    return total(daemon.admin_url, "groupd_received_bytes_total")


def malformed(daemon: Daemon) -> float:
    return total(daemon.admin_url, "groupd_connections_malformed_total")


def test_of_empty_frames_the_first_one_ends_the_connection(daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            send(stack.enter_context(RawConnection(daemon.port)), bytes(256 * KB))
        wait_until(lambda: malformed(daemon) == 20, 20, "the end of all of them")
        assert received(daemon) <= 20 * READ
        assert stack.enter_context(RawConnection(daemon.port)).works()


def test_of_a_frame_that_never_ends_little_is_read_without_room(daemon: Daemon) -> None:
    before = resident_bytes(daemon.pid)
    with contextlib.ExitStack() as stack:
        beginning = struct.pack(">i", 400 * KB) + bytes(256 * KB)
        for _ in range(100):
            send(stack.enter_context(RawConnection(daemon.port)), beginning)
        assert stack.enter_context(RawConnection(daemon.port)).works()
        assert received(daemon) <= 100 * READ + ROOM + ROOM // 4
        assert resident_bytes(daemon.pid) - before < 15 << 20


def test_of_records_of_one_byte_few_are_decrypted(daemon: Daemon) -> None:
    """They are those of an empty frame, which ends the connection. Each takes 23 bytes."""
    context = client_context(CA, version=ssl.TLSVersion.TLSv1_3)
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(RawConnection(daemon.ports["ssl"]))
            came, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(came, to_send, server_hostname=HOST)
            shake_hands(connection, tls, came, to_send)
            for _ in range(20_000):
                tls.write(b"\0")
            send(connection, to_send.read())
        wait_until(lambda: malformed(daemon) == 5, 20, "the end of all of them")
        assert received(daemon) <= 5 * READ / 23
        assert stack.enter_context(RawConnection(daemon.port)).works()


def shake_hands(
    connection: RawConnection, tls: ssl.SSLObject, came: ssl.MemoryBIO, to_send: ssl.MemoryBIO
) -> None:
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            connection.send(to_send.read())
            came.write(connection.socket.recv(16 * KB))
        else:
            connection.send(to_send.read())
            return
