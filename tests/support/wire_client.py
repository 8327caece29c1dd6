"""A raw protocol client: any API, any version, one blocking connection.

Requests are written and replies read with kio, which shares no code with the server under test.
`send` and `receive` are apart so that a request may stay unanswered (JoinGroup, SyncGroup); the
server answers one connection in order.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from ssl import SSLContext
from typing import Any

from tests.support.kio_entities import (
    Plain,
    build,
    message_class,
    read_response,
    request_bytes,
    to_bytes,
)
from tests.support.raw import FrameSocket
from tests.support.raw import frame as framed

TIMEOUT_S = 20.0
API_VERSIONS = "ApiVersions"
PRODUCE = "Produce"

Request = tuple[str, int, Mapping[str, Any]]
"""Name and version of an API, and fields as plain data."""


class NoReply(AssertionError):
    """Nothing came in time, or the server closed the connection."""


class WireClient(FrameSocket):
    """One connection. Not for several threads."""

    def __init__(
        self, host: str, port: int, client_id: str = "wire", *, tls: SSLContext | None = None
    ) -> None:
        super().__init__(port, host, timeout_s=TIMEOUT_S, tls=tls)
        self.client_id = client_id
        self._correlation = 0
        self._waiting: deque[tuple[int, str, int]] = deque()

    @property
    def unanswered(self) -> int:
        return len(self._waiting)

    def send(self, api: str, version: int, fields: Mapping[str, Any]) -> None:
        """Sends one request; `fields` are plain data as in `kio_entities`."""
        self.socket.sendall(self.frame_of(api, version, fields))

    def pipeline(self, requests: Iterable[Request]) -> list[Plain]:
        """Send all of them in one go, then read their replies; {} for a Produce without one."""
        data, answered = b"", []
        for api, version, fields in requests:
            data += self.frame_of(api, version, fields)
            answered.append(not (api == PRODUCE and fields["acks"] == 0))
            if not answered[-1]:
                self._waiting.pop()
        self.socket.sendall(data)
        return [self.receive() if one else {} for one in answered]

    def frame_of(self, api: str, version: int, fields: Mapping[str, Any]) -> bytes:
        """The frame of a request whose reply is waited for from now on."""
        self._correlation += 1
        request = message_class(api, version, "request")
        header = build(
            request.__header_schema__,
            {
                "request_api_key": request.__api_key__,
                "request_api_version": version,
                "correlation_id": self._correlation,
                "client_id": self.client_id,
            },
        )
        frame = to_bytes(header) + request_bytes(api, version, fields)
        self._waiting.append((self._correlation, api, version))
        return framed(frame)

    def receive(self, timeout_s: float = TIMEOUT_S) -> Plain:
        """The reply to the oldest unanswered request. Raises NoReply."""
        if not self._waiting:
            raise NoReply("no request is waiting for a reply")
        self.socket.settimeout(timeout_s)
        try:
            frame = self.frame()
        except TimeoutError:
            raise NoReply(f"no reply within {timeout_s} s") from None
        except ConnectionError as error:
            raise NoReply(f"the server closed the connection: {error}") from None
        correlation, api, version = self._waiting.popleft()
        assert struct.unpack_from(">i", frame)[0] == correlation, "replies out of order"
        tagged = message_class(api, version, "response").__flexible__ and api != API_VERSIONS
        return read_response(api, version, frame[5 if tagged else 4 :])

    def call(self, api: str, version: int, **fields: Any) -> Plain:
        """`send`, then `receive`."""
        self.send(api, version, fields)
        return self.receive()


def new_producer(address: tuple[str, int], transactional_id: str | None = None) -> tuple[int, int]:
    """A producer id and its epoch."""
    with WireClient(*address) as client:
        reply = client.call(
            "InitProducerId",
            4,
            transactional_id=transactional_id,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
    assert reply["error_code"] == 0
    return reply["producer_id"], reply["producer_epoch"]


def coordinator_of(bootstrap: str, group: str) -> tuple[str, int]:
    """The address of the node that serves a group."""
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    with WireClient(host, int(port)) as client:
        reply = client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
    (found,) = reply["coordinators"]
    return found["host"], found["port"]
