"""A proxy between share consumers and a broker that knows the requests of share groups: it tells
which were sent, and can change the error of an answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79
SHARE_APIS = (HEARTBEAT, FETCH, ACKNOWLEDGE)
ERROR_AT = 9
"""Where the error of these answers is: correlation id, tagged fields, throttle time."""


class Asked(NamedTuple):
    """A request; `epoch` is the member's in a heartbeat, else the session's."""

    key: int
    version: int
    member: str
    epoch: int


class ShareWire:
    """Listens on `port` for clients of the broker whose port is `target`."""

    def __init__(self) -> None:
        self.target = 0
        self.asked: list[Asked] = []
        self.errors: list[tuple[int, int]] = []
        """(API key, error) of the answers of the broker that had one."""
        self._changes: dict[int, int] = {}
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def answer_next(self, key: int, error: int) -> None:
        """The next answer of this API that has no error gets this one."""
        self._changes[key] = error

    def of(self, key: int, since: int = 0) -> list[Asked]:
        """The requests of one API, beside the first `since` of all requests."""
        with self._lock:
            return [one for one in self.asked[since:] if one.key == key]

    def close(self) -> None:
        for one in (self._listening, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                self._sockets += (client, broker)
                waiting: dict[int, int] = {}
                for pump in (self._requests, self._answers):
                    ends = (client, broker, waiting)
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, waiting: dict[int, int]
    ) -> None:
        for frame in _frames(client):
            key, version, correlation = struct.unpack_from(">hhi", frame)
            if key in SHARE_APIS:
                waiting[correlation] = key
                with self._lock:
                    self.asked.append(_asked(key, version, frame))
            _send(broker, frame)
        _end(broker)

    def _answers(
        self, client: socket.socket, broker: socket.socket, waiting: dict[int, int]
    ) -> None:
        for frame in _frames(broker):
            key = waiting.pop(*struct.unpack_from(">i", frame), 0)
            if key:
                (error,) = struct.unpack_from(">h", frame, ERROR_AT)
                if error:
                    self.errors.append((key, error))
                elif key in self._changes:
                    struct.pack_into(">h", frame, ERROR_AT, self._changes.pop(key))
            _send(client, frame)
        _end(client)


def _asked(key: int, version: int, frame: bytearray) -> Asked:
    """The members' id and the epoch come third and fourth in all of these requests."""
    (length,) = struct.unpack_from(">h", frame, 8)
    at = 10 + max(length, 0) + 1  # the client id and the tagged fields
    at += frame[at] or 1  # the group id: its length + 1 in one byte, as all here are short
    member = frame[at + 1 : at + frame[at]].decode()
    (epoch,) = struct.unpack_from(">i", frame, at + frame[at])
    return Asked(key, version, member, epoch)


def _frames(source: socket.socket) -> Iterator[bytearray]:
    """The frames that come, until the connection ends."""
    with contextlib.suppress(OSError), source.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            yield bytearray(stream.read(*struct.unpack(">i", size)))


def _send(to: socket.socket, frame: bytearray) -> None:
    with contextlib.suppress(OSError):
        to.sendall(struct.pack(">i", len(frame)) + frame)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
