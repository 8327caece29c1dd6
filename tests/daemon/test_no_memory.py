"""A daemon whose address space is nearly used up: who asks for more is answered or disconnected."""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from pathlib import Path
from struct import pack

import pytest

from tests.support.daemon import Daemon
from tests.support.raw import RawConnection, api_versions, frame, request, string

ROOM = 24 << 20
"""Bytes that the daemon may still ask for once it serves."""

DESCRIBE_GROUPS, METADATA, OFFSET_FETCH = 15, 3, 9
ITEMS = 1_500_000


def join(size: int) -> bytes:
    """JoinGroup v0 with so many bytes of metadata."""
    body = string("g") + pack(">i", 10_000) + string("") + string("consumer")
    return frame(
        request(11, 0, 1, body + pack(">i", 1) + string("range") + pack(">i", size)) + bytes(size)
    )


HUNGRY = {
    "a frame": join(60 << 20),
    "a list of groups": frame(request(DESCRIBE_GROUPS, 0, 1, pack(">i", ITEMS) + bytes(2 * ITEMS))),
    "a list of topics": frame(request(METADATA, 1, 1, pack(">i", ITEMS) + bytes(2 * ITEMS))),
    "a list of partitions": frame(
        request(
            OFFSET_FETCH,
            1,
            1,
            string("g") + pack(">i", 1) + string("t") + pack(">i", ITEMS) + bytes(4 * ITEMS),
        )
    ),
}


@pytest.mark.parametrize("kind", HUNGRY)
def test_who_asks_for_too_much_is_answered_or_disconnected(kind: str, tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.start()
    before = resource.prlimit(daemon.pid, resource.RLIMIT_AS)
    try:
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (address_space(daemon) + ROOM, before[1]))
        for _ in range(3):
            with RawConnection(daemon.port, timeout_s=60) as hungry, suppress(ConnectionError):
                hungry.socket.sendall(HUNGRY[kind])
                hungry.socket.recv(1 << 20)
            with RawConnection(daemon.port) as other:
                other.socket.sendall(api_versions(1))
                assert other.socket.recv(1 << 16)
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, before)
        daemon.stop()
        assert len((tmp_path / "groupd.log").read_bytes()) < 64 << 10
    finally:
        daemon.close()


def address_space(daemon: Daemon) -> int:
    """The bytes of the daemon's address space."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) << 10
