"""Requests as bytes on a plain socket: what no client library would send."""

from __future__ import annotations

import socket
import struct
from ssl import SSLContext
from types import TracebackType
from typing import Self

API_VERSIONS = 18
METADATA = 3
FETCH = 1
HEARTBEAT = 12
UNSUPPORTED_VERSION = 35


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def request(key: int, version: int, correlation: int, body: bytes = b"") -> bytes:
    """A request with header v1 (client id "raw") as it goes into a frame."""
    return struct.pack(">hhi", key, version, correlation) + string("raw") + body


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def api_versions(correlation: int, version: int = 0) -> bytes:
    """A frame that every broker answers at once."""
    return frame(request(API_VERSIONS, version, correlation))


def metadata(correlation: int, topics: tuple[str, ...] = ()) -> bytes:
    """Metadata v1 of these topics; of all topics if none is given."""
    count = len(topics) if topics else -1
    body = struct.pack(">i", count) + b"".join(string(topic) for topic in topics)
    return frame(request(METADATA, 1, correlation, body))


def fetch(correlation: int, topic: str, partition: int, offset: int, max_wait_ms: int) -> bytes:
    """Fetch v4 of one partition, which waits `max_wait_ms` for a first byte."""
    body = struct.pack(">iiiib", -1, max_wait_ms, 1, 1 << 20, 0)
    body += struct.pack(">i", 1) + string(topic)
    body += struct.pack(">i", 1) + struct.pack(">iqi", partition, offset, 1 << 20)
    return frame(request(FETCH, 4, correlation, body))


def close_with_reset(connection: socket.socket) -> None:
    """Close with RST, as the kernel does for a process that is killed with unread data."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class FrameSocket:
    """A connection that reads frames, with a deadline. `source`: the address that it comes from."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        timeout_s: float = 10.0,
        source: str = "",
        tls: SSLContext | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.socket = socket.create_connection(
            (host, port), timeout_s, (source, 0) if source else None
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._read_so_far = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def _read(self, count: int) -> bytes:
        """The next bytes. After a TimeoutError it may be called again."""
        data = self._read_so_far
        while len(data) < count:
            more = self.socket.recv(min(count - len(data), 65536))
            if not more:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += more
        self._read_so_far = bytearray()
        return bytes(data)

    def frame(self) -> bytes:
        """The next frame, without its length."""
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)


class RawConnection(FrameSocket):
    """Sends any bytes."""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> tuple[int, bytes]:
        """(correlation id, what follows it) of the next reply."""
        payload = self.frame()
        return struct.unpack(">i", payload[:4])[0], payload[4:]

    def works(self, correlation: int = 77) -> bool:
        """Whether a plain ApiVersions is answered without error."""
        self.send(api_versions(correlation))
        answered, body = self.reply()
        return answered == correlation and struct.unpack(">h", body[:2])[0] == 0

    def is_closed_by_peer(self) -> bool:
        """Whether the peer ends the connection within the deadline, without a byte in answer."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
