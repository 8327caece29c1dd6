"""`server.c` as a peer: what is left when nobody looks at the requests."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.peers.processes import NoPeer, Peer, peer_at

C_SERVER = "C server (same frames)"
PROGRAM = Path(__file__).parent / "target" / "server"


@contextmanager
def c_server(reply: bytes) -> Iterator[Peer]:
    """A server that answers everything with `reply`, which has neither length nor correlation id.
    Raises NoPeer."""
    if not PROGRAM.is_file():
        raise NoPeer("not built: run `make bench-peers`")
    with subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(struct.pack(">i", len(reply)) + reply)
        process.stdin.flush()
        yield peer_at(C_SERVER, process.stdout.readline().decode().strip(), process.pid)
        process.stdin.close()
