"""The broker under attack, as its attackers and the honest clients see it."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Literal

import msgspec

from tests.support.raw import frame, request, string

Kind = Literal["groupd", "kafka", "kfake"]
FIND_COORDINATOR = 10
TIMEOUT_S = 20.0


class Victim(msgspec.Struct, frozen=True):
    """`nodes`: addresses of all nodes that clients see, the first one is the bootstrap. `admin`:
    the admin port, 0 if it has none. `pids`: all its processes, the main one first. `secure`: the
    address of a listener with TLS whose certificate the file `ca` vouches for, if there is one;
    half of the honest clients go there."""

    kind: Kind
    nodes: tuple[tuple[str, int], ...]
    pids: tuple[int, ...]
    admin: int = 0
    secure: tuple[str, int] | None = None
    ca: str = ""

    @property
    def address(self) -> tuple[str, int]:
        return self.nodes[0]

    @property
    def bootstrap(self) -> str:
        return f"{self.nodes[0][0]}:{self.nodes[0][1]}"

    def tls(self) -> ssl.SSLContext:
        """The TLS context of a client that connects to `secure`."""
        return ssl.create_default_context(cafile=self.ca)

    def coordinator(self, key: str, kind: int = 0) -> tuple[str, int]:
        """Where the coordinator of a group is, or with 1 of a transactional id. Raises OSError,
        also while it has none."""
        asked = frame(request(FIND_COORDINATOR, 1, 1, string(key) + bytes([kind])))
        with socket.create_connection(self.address, TIMEOUT_S) as connection:
            connection.sendall(asked)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            reply = _exactly(connection, size)
        error, message = struct.unpack_from(">hh", reply, 8)
        if error:
            raise ConnectionError(f"no coordinator: error {error}")
        at = 12 + max(message, 0) + 4
        (length,) = struct.unpack_from(">h", reply, at)
        host = reply[at + 2 : at + 2 + length].decode()
        return host, struct.unpack_from(">i", reply, at + 2 + length)[0]


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data
