"""The broker under attack, as its attackers and the honest clients see it."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Literal

import msgspec

from tests.crash.wire import Reader
from tests.support.raw import frame, request, string

Kind = Literal["groupd", "kafka", "kfake"]
Address = tuple[str, int]
METADATA, FIND_COORDINATOR = 3, 10
TIMEOUT_S = 20.0


class Door(msgspec.Struct, frozen=True):
    """The other listeners of a node: with TLS, with a login, with both; and its admin port."""

    secure: Address
    login: Address
    secure_login: Address
    admin: Address


class Victim(msgspec.Struct, frozen=True):
    """`nodes`: addresses of all nodes that clients see, the first one is the bootstrap. `admin`:
    the admin port, 0 if it has none. `pids`: all its processes, the main one first. `doors`: of
    each node, if it has any; half of the honest clients go there with TLS. `ca`: the file that
    vouches for its certificates. `tokens`: of OAUTHBEARER, by user; `admin_token`: of the admin
    port. If it has tokens, honest clients log in anew all the time."""

    kind: Kind
    nodes: tuple[Address, ...]
    pids: tuple[int, ...]
    admin: int = 0
    doors: tuple[Door, ...] = ()
    ca: str = ""
    tokens: dict[str, str] = {}
    admin_token: str = ""

    @property
    def address(self) -> tuple[str, int]:
        return self.nodes[0]

    @property
    def bootstrap(self) -> str:
        return f"{self.nodes[0][0]}:{self.nodes[0][1]}"

    def tls(self) -> ssl.SSLContext:
        """The TLS context of a client."""
        return ssl.create_default_context(cafile=self.ca)

    def secure(self, address: Address) -> Address:
        """The listener with TLS of the node with this address."""
        return self.doors[self.nodes.index(address)].secure

    def leader(self, topic: str) -> Address:
        """Where the leader of partition 0 of a topic is. Raises OSError."""
        reply = Reader(self._asked(METADATA, struct.pack(">i", 1) + string(topic)))
        reply.skip(4)
        nodes = {}
        for _ in range(reply.i32()):
            node = reply.i32()
            nodes[node] = reply.string(), reply.i32()
            reply.string()
        reply.skip(4 + 4 + 2)
        reply.string()
        reply.skip(1)
        for _ in range(reply.i32()):
            reply.skip(2)
            partition, leader = reply.i32(), reply.i32()
            if partition == 0 and leader in nodes:
                return nodes[leader]
            reply.skip(4 * reply.i32())
            reply.skip(4 * reply.i32())
        raise ConnectionError("no leader")

    def _asked(self, key: int, body: bytes) -> bytes:
        """The reply to a request of version 1."""
        with socket.create_connection(self.address, TIMEOUT_S) as connection:
            connection.sendall(frame(request(key, 1, 1, body)))
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            return _exactly(connection, size)

    def coordinator(self, key: str, kind: int = 0) -> Address:
        """Where the coordinator of a group is, or with 1 of a transactional id. Raises OSError,
        also while it has none."""
        reply = self._asked(FIND_COORDINATOR, string(key) + bytes([kind]))
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
