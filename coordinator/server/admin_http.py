"""The admin port: a small HTTP/1.1 server over h11 (GET and HEAD only).

Handlers take the split path and return an `HttpReply` or an awaitable of one; `admin_routes`
decides what they answer. Requests are limited in size and time; a malformed one gets a 4xx and the
connection is closed. Only paths below `/control` may change anything. They have a handler of their
own, a coroutine that also gets method and body, and exist only if they were switched on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    import h11

log = structlog.get_logger("groupd.admin")

CONTROL = "control"
JSON = "application/json"
REQUEST_TIMEOUT_S = 10.0
CONTROL_TIMEOUT_S = 120.0
"""How long a control request may wait."""
CONTROL_BODY_MAX = 1 << 20
CONNECTIONS_MAX = 64


class HttpRequest(Struct, frozen=True):
    """`path`: the decoded segments. `query`: the first value of each parameter. `headers`: by name
    in lower case. `body` None: it was too large."""

    path: tuple[str, ...]
    query: dict[str, str]
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = b""


class HttpReply(Struct, frozen=True):
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


def text(body: str, status: int = 200) -> HttpReply:
    return HttpReply(body.encode() + b"\n", status=status)


def as_json(value: Any, status: int = 200, *, compact: bool = False) -> HttpReply:
    """A JSON reply. Use `compact` for values that may be long: it is several times faster, and all
    else waits for it. For values that may be very long there is `long_json`."""
    body = json.dumps(value, indent=None if compact else 2, ensure_ascii=False).encode() + b"\n"
    return HttpReply(body, JSON, status)


Handler = Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]]
ControlHandler = Callable[[HttpRequest], Awaitable[HttpReply]]


class AdminServer:
    """Serves `handler` on its own port, and `control`, if there is one, below `/control`."""

    def __init__(self, handler: Handler, control: ControlHandler | None = None) -> None:
        self._handler = handler
        self._control = control
        self._server: asyncio.Server | None = None
        self._open = 0
        self._loaded = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens and returns the bound address. Raises OSError."""
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
                await self._load()
                await self._exchange(reader, writer)
        except (TimeoutError, OSError):
            pass  # the client is slow or gone; it gets no reply
        finally:
            self._open -= 1
            writer.close()

    async def _load(self) -> None:
        """h11 takes some milliseconds to load; neither the start nor the event loop should wait for
        it."""
        if not self._loaded:
            await asyncio.to_thread(import_module, "groupd.coordinator.server.http_body")
            self._loaded = True

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        from groupd.coordinator.server.http_body import READ_BYTES, read_request

        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=READ_BYTES)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await read_request(connection, reader)
                if request is None:
                    return
                asked = _parsed(request)
                control = self._control if asked and asked.path[:1] == (CONTROL,) else None
                if asked is not None and control is not None:
                    asked = replace(asked, body=await _body(connection, reader))
            head = request.method == b"HEAD"
            if asked is None:
                reply = text("bad request", 400)
            elif control is not None:
                async with asyncio.timeout(CONTROL_TIMEOUT_S):
                    reply = await control(asked)
            else:
                reply = await self._answer(asked)
        except h11.RemoteProtocolError as error:
            reply, head = text("bad request", error.error_status_hint), False
        headers = [
            ("Content-Type", reply.content_type),
            ("Content-Length", str(len(reply.body))),
            ("Connection", "close"),
            *reply.headers,
        ]
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        writer.write(
            connection.send(h11.Response(status_code=reply.status, headers=headers)) or b""
        )
        if not head:
            writer.write(connection.send(h11.Data(data=reply.body)) or b"")
        await writer.drain()

    async def _answer(self, request: HttpRequest) -> HttpReply:
        if request.method not in ("GET", "HEAD"):
            return text("only GET and HEAD are served here", 405)
        try:
            reply = self._handler(request)
            return reply if isinstance(reply, HttpReply) else await reply
        except Exception:
            log.exception("admin request failed", path="/".join(request.path))
            return text("internal error; see the log", 500)


def _parsed(request: h11.Request) -> HttpRequest | None:
    """None for a target that cannot be read."""
    try:
        parts = urlsplit(request.target.decode("latin-1"))
    except ValueError:
        return None
    return HttpRequest(
        tuple(unquote(part) for part in parts.path.split("/") if part),
        {key: values[0] for key, values in parse_qs(parts.query).items()},
        request.method.decode("latin-1"),
        {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers},
    )


async def _body(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes | None:
    from groupd.coordinator.server.http_body import BodyTooLarge, read_body

    try:
        return await read_body(connection, reader, CONTROL_BODY_MAX)
    except BodyTooLarge:
        return None
