"""The large requests, over a plain socket."""

from __future__ import annotations

import socket
from struct import Struct

from groupd.protocol.writer import Writer
from tests.bench import frames
from tests.bench.fill import TOPIC
from tests.bench.stalls.store import EPOCH, HUGE, member_id

_INT32 = Struct(">i")
TIMEOUT_S = 60.0
NEWCOMER = "newcomer-0123456789"
LIST_GROUPS, OFFSET_FETCH, DESCRIBE = 16, 9, 69


class Client:
    """A connection with one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._file = self._socket.makefile("rb")

    def ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        (length,) = _INT32.unpack(self._file.read(4))
        reply = self._file.read(length)
        if len(reply) < length:
            raise ConnectionError("the daemon closed the connection")
        return reply

    def list_groups(self) -> bytes:
        writer = Writer(flexible=True)
        writer.array_length(0)
        writer.array_length(0)
        writer.end()
        return self.ask(frames.request_frame(LIST_GROUPS, 5, writer.buffer, flexible=True))

    def describe(self) -> bytes:
        """ConsumerGroupDescribe."""
        writer = Writer(flexible=True)
        writer.array((HUGE,), Writer.string)
        writer.boolean(False)
        writer.end()
        return self.ask(frames.request_frame(DESCRIBE, 0, writer.buffer, flexible=True))

    def fetch_all(self) -> bytes:
        writer = Writer(flexible=True)
        writer.string(HUGE)
        writer.null_array()
        writer.boolean(False)
        writer.end()
        return self.ask(frames.request_frame(OFFSET_FETCH, 7, writer.buffer, flexible=True))

    def join(self) -> bytes:
        return self.ask(frames.consumer_heartbeat(HUGE, NEWCOMER, 0, (TOPIC,), ()))

    def leave(self) -> bytes:
        """A member leaves, and somebody else's heartbeat finds that a target is due."""
        self.ask(frames.consumer_heartbeat(HUGE, NEWCOMER, -1))
        return self.ask(heartbeat(HUGE, 0))


def heartbeat(group: str, index: int) -> bytes:
    return frames.consumer_heartbeat(group, member_id(group, index), EPOCH)
