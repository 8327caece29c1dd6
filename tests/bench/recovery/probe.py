"""What is asked of a broker from outside: whether it answers, and how long its loop stalls."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress

from tests.bench.frames import offset_fetch
from tests.bench.peers.processes import Peer
from tests.support.metrics import total

API_VERSIONS = 18
NUMBER = 7
TIMEOUT_S = 600.0
POLL_S = 0.002
OFFSET = 0x4242_4242_4242
"""The offset of every commit. Nothing else in a reply looks like it: no partition has this
number."""
STALL = "groupd_event_loop_stall_seconds"


def ask(peer: Peer, frame: bytes) -> bytes:
    """Sends one request on a connection of its own; the reply without its length."""
    with socket.create_connection(peer.address, timeout=TIMEOUT_S) as client:
        client.sendall(frame)
        stream = client.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)


def wait_for_api_versions(peer: Peer) -> None:
    """Waits until the peer accepts a connection and answers."""
    frame = struct.pack(">ihhih", 10, API_VERSIONS, 0, NUMBER, -1)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(OSError, struct.error):
            if struct.unpack_from(">ih", ask(peer, frame)) == (NUMBER, 0):
                return
        time.sleep(POLL_S)
    raise TimeoutError(f"{peer.name} does not answer")


def wait_for_offsets(peer: Peer, group: str, topic: str, partitions: int) -> None:
    """Waits until the group's coordinator gives all that was committed."""
    frame = offset_fetch(group, topic, partitions)
    wanted = OFFSET.to_bytes(8, "big")
    deadline = time.monotonic() + TIMEOUT_S
    while ask(peer, frame).count(wanted) != partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{peer.name} does not find the offsets of {group}")
        time.sleep(POLL_S)


def longest_stall_ms(host: str, port: int) -> float:
    """The longest stall of groupd's event loop."""
    return total(f"http://{host}:{port}", STALL) * 1000
