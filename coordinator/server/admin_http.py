"""The admin port: a small HTTP/1.1 server over h11 (GET and HEAD only).

Handlers are plain functions from the split path to an `HttpReply`; what they answer is decided in
`admin_routes`. Requests are limited in size and time; anything odd gets a 4xx and is closed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import h11
import structlog

log = structlog.get_logger("groupd.admin")

READ_BYTES = 16384
REQUEST_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 64


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`path`: the decoded segments; `query`: the first value of each parameter."""

    path: tuple[str, ...]
    query: dict[str, str]


@dataclass(frozen=True, slots=True)
class HttpReply:
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


def text(body: str, status: int = 200) -> HttpReply:
    return HttpReply(body.encode() + b"\n", status=status)


def as_json(value: Any, status: int = 200, *, compact: bool = False) -> HttpReply:
    """`compact` for what may be long: it is several times quicker, and all else waits for it."""
    body = json.dumps(value, indent=None if compact else 2, ensure_ascii=False).encode() + b"\n"
    return HttpReply(body, "application/json", status)


Handler = Callable[[HttpRequest], HttpReply]


class AdminServer:
    """Serves `handler` on its own port."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was bound. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    await self._exchange(reader, writer)
        except (TimeoutError, OSError):
            pass  # the asker is slow or gone; nothing is owed
        finally:
            self._open -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=READ_BYTES)
        try:
            request = await self._read_request(connection, reader)
            if request is None:
                return
            reply = self._answer(request)
            head = request.method == b"HEAD"
        except h11.RemoteProtocolError as error:
            reply, head = text("bad request", error.error_status_hint), False
        headers = [
            ("Content-Type", reply.content_type),
            ("Content-Length", str(len(reply.body))),
            ("Connection", "close"),
        ]
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        writer.write(
            connection.send(h11.Response(status_code=reply.status, headers=headers)) or b""
        )
        if not head:
            writer.write(connection.send(h11.Data(data=reply.body)) or b"")
        await writer.drain()

    @staticmethod
    async def _read_request(
        connection: h11.Connection, reader: asyncio.StreamReader
    ) -> h11.Request | None:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Request):
                return event
            else:
                return None

    def _answer(self, request: h11.Request) -> HttpReply:
        if request.method not in (b"GET", b"HEAD"):
            return text("only GET and HEAD are served here", 405)
        try:
            parts = urlsplit(request.target.decode("latin-1"))
        except ValueError:
            return text("bad request", 400)
        path = tuple(unquote(part) for part in parts.path.split("/") if part)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        try:
            return self._handler(HttpRequest(path, query))
        except Exception:
            log.exception("admin request failed", path=parts.path)
            return text("internal error; see the log", 500)
