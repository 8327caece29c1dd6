"""The admin port: a small HTTP/1.1 server over h11, one request per connection.

Handlers take an `HttpRequest` and return an `HttpReply`, or an awaitable of one; `routes` decides
what they answer. A GET changes nothing, unless it is below `/control`: these paths have a handler
of their own, a coroutine, and exist only if they were switched on. A POST asks for an action; only
some paths have any. An `HttpStream` is a reply that goes on for as long as its client reads it.
`access` decides which client may ask for what, before anything else is done for a request.

No client keeps others out: requests are limited in size and time, replies in time. Connections that
have not sent their request have a limited number of places, and so has each kind of path. A request
for which there is no place is answered with 503 at once. A stream does not end by itself, so it
gives its place to a new one if there is no free place. A page has a largest size (`pages`), so the
places also bound the memory of pages that no client reads.

A malformed request gets a 4xx and the connection is closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from groupd.coordinator.admin.access import AdminAccess, Caller, Role
from groupd.coordinator.admin.admin_limits import (
    ACTIONS,
    CONTROL,
    FILES,
    METRICS,
    PROBES,
    REQUESTS_MAX,
    STREAMS,
    AdminHosts,
    AdminLimit,
    kind_of,
)
from groupd.coordinator.admin.http_messages import (
    Answer,
    ControlHandler,
    HttpHandler,
    HttpReply,
    HttpRequest,
    HttpStream,
    Refusal,
    text,
    wants_page,
)
from groupd.coordinator.admin.tls import Accepted, AdminTls, streams, subject_of

if TYPE_CHECKING:
    import h11

log = structlog.get_logger("groupd.admin")

READ_AHEAD_BYTES = 16384
"""How many bytes of a client are buffered at most before they are parsed."""
REQUEST_TIMEOUT_S = 10.0
CONTROL_TIMEOUT_S = 120.0
"""How long a control request may take."""
CONTROL_BODY_MAX = 1 << 20
SEND_TIMEOUT_S = 10.0
"""How long it may take to send a whole reply, however long the reply is."""
UNASKED_MAX = 128
"""How many connections may exist that have not sent their request."""
BACKLOG = 1024
RETRY_AFTER_S = 1


class _AdminConnection:
    """A connection. It has a place from its start on, before its handshake."""

    def __init__(self, accepted: socket.socket) -> None:
        self.accepted = accepted
        self.transport: asyncio.WriteTransport | None = None
        """None until the handshake is done."""
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        if self.task is not None:
            self.task.cancel()


class AdminServer:
    """Serves `handler` on its own port, and `control`, if there is one, below `/control`. `hosts`:
    the names by which clients may ask. `tls` None: plain HTTP. `actions`: the handlers of POST
    requests, by the first segment of the path. `wake()` is called for each new client."""

    def __init__(
        self,
        handler: HttpHandler,
        control: ControlHandler | None,
        hosts: Iterable[str],
        access: AdminAccess,
        tls: AdminTls | None,
        actions: Mapping[str, ControlHandler],
        wake: Callable[[], None],
    ) -> None:
        self._handler = handler
        self._wake = wake
        self._actions = actions
        self._control = control
        self._hosts = AdminHosts(hosts)
        self._access = access
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._unasked = AdminLimit(UNASKED_MAX)
        self._limits = {kind: AdminLimit(count) for kind, count in REQUESTS_MAX.items()}
        self._loaded = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens and returns the bound address. Raises OSError."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Accepted(self._accept), host, port, backlog=BACKLOG
        )
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stops listening, and closes streams and connections that wait for their clients. Requests
        that are being answered go on: one of them may have asked for this."""
        if self._server is not None:
            self._server.close()
        for limit in (self._unasked, *self._limits.values()):
            limit.abort_waiting()
        self._limits[STREAMS].abort_all()

    def _accept(self, accepted: socket.socket) -> None:
        client = _AdminConnection(accepted)
        self._unasked.take(client)
        self._unasked.wait_for_client(client)
        client.task = asyncio.ensure_future(self._serve(client))
        self._tasks.add(client.task)
        client.task.add_done_callback(partial(self._ended, client))

    def _ended(self, client: _AdminConnection, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._unasked.give_back(client)
        if client.transport is None:
            client.accepted.close()

    async def _serve(self, client: _AdminConnection) -> None:
        self._wake()
        try:
            context = None
            if self._tls is not None:
                context = await asyncio.to_thread(self._tls.context)
            reader, writer = await streams(
                client.accepted, context, READ_AHEAD_BYTES, SEND_TIMEOUT_S
            )
            client.transport = writer.transport
            await self._load()
            await self._exchange(reader, writer, client)
            writer.close()
        except BaseException as error:
            if client.transport is not None:
                client.transport.abort()
            if not isinstance(error, Exception):
                raise
            # A client that is too slow, or that is gone, gets no reply or only a part of it.
            if not isinstance(error, TimeoutError | OSError):
                log.exception("a connection of the admin port has failed")

    async def _load(self) -> None:
        """Loads h11 in a thread. That takes some milliseconds, for which neither the start nor the
        event loop should wait."""
        if not self._loaded:
            await asyncio.to_thread(import_module, "groupd.coordinator.admin.http_wire")
            self._loaded = True

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: _AdminConnection,
    ) -> None:
        import h11

        from groupd.coordinator.admin import http_wire

        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=http_wire.READ_BYTES)
        send = partial(http_wire.send_reply, connection, writer, timeout_s=SEND_TIMEOUT_S)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                asked, reply = await self._asked(connection, reader, writer)
        except h11.RemoteProtocolError as error:
            await send(text("bad request", error.error_status_hint))
            return
        except Refusal as error:
            await send(error.reply)
            return
        if asked is None:
            return
        self._unasked.give_back(client)
        kind = self._kind(asked)
        limit, head = self._limits[kind], asked.method == "HEAD"
        if reply is None and not limit.take(client):
            retry = (("Retry-After", str(RETRY_AFTER_S)),)
            reply = text(f"busy: all {limit.count} places for {kind} are taken", 503, retry)
        if reply is not None:
            await send(reply, head=head)
            return
        try:
            answer = await self._answer(asked, kind)
            if isinstance(answer, HttpStream):
                limit.wait_for_client(client, _address(writer))
                await http_wire.send_stream(connection, writer, answer, SEND_TIMEOUT_S, head=head)
                return
            limit.wait_for_client(client)
            await send(answer, head=head)
        finally:
            limit.give_back(client)

    async def _asked(
        self,
        connection: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[HttpRequest | None, HttpReply | None]:
        """The request, or None if the client is gone; and the refusal, if the request is refused.
        The body is read only where something may be changed, and kept only for clients that may do
        so."""
        from groupd.coordinator.admin.http_wire import drop_body, read_body, read_request

        asked = await read_request(connection, reader)
        if asked is None:
            return None, None
        kind = self._kind(asked)
        refusal = await self._refusal(asked, kind, writer)
        if kind in (CONTROL, ACTIONS):
            if refusal is None:
                caller = _caller(asked, writer)
                body = await read_body(connection, reader, CONTROL_BODY_MAX)
                who = {"address": caller.address, "caller": caller.name}
                return replace(asked, body=body, **who), None
            await drop_body(connection, reader, CONTROL_BODY_MAX)
        return asked, refusal

    def _kind(self, request: HttpRequest) -> str:
        first = request.path[0] if request.path else ""
        if first == CONTROL and self._control is not None:
            return CONTROL
        if request.method == "POST" and first in self._actions:
            return ACTIONS
        if not first and wants_page(request):
            return FILES
        return kind_of(request.path)

    async def _refusal(
        self, request: HttpRequest, kind: str, writer: asyncio.StreamWriter
    ) -> HttpReply | None:
        """The reply that refuses the request; None if it may be answered. Probes may use any
        `Host`, because they use names that the daemon does not know, such as those of services, and
        have nothing to hide from a web page. The files of the console need no credentials: they are
        the same everywhere, and the page asks for a token."""
        if kind == PROBES:
            return None
        if not self._hosts.allow(request.headers.get("host")):
            return text("not a name of this port; see groupd.admin.hosts", 421)
        if kind == FILES or (kind == METRICS and self._access.metrics_open):
            return None
        caller = _caller(request, writer)
        needed = Role.ADMIN if kind in (CONTROL, ACTIONS) else Role.READ
        return await self._access.refusal(caller, needed)

    async def _answer(self, request: HttpRequest, kind: str) -> Answer:
        if kind == CONTROL and self._control is not None:
            async with asyncio.timeout(CONTROL_TIMEOUT_S):
                return await self._control(request)
        if kind != ACTIONS and request.method not in ("GET", "HEAD"):
            return text("only GET and HEAD are served here", 405)
        if kind == ACTIONS and (refused := _of_a_web_page(request)) is not None:
            return refused
        try:
            if kind == ACTIONS:
                return await self._actions[request.path[0]](request)
            answer = self._handler(request)
            return answer if isinstance(answer, HttpReply | HttpStream) else await answer
        except Refusal as error:
            return error.reply
        except Exception:
            log.exception("admin request failed", path="/".join(request.path))
            return text("internal error; see the log", 500)


def _caller(request: HttpRequest, writer: asyncio.StreamWriter) -> Caller:
    authorization = request.headers.get("authorization")
    return Caller(_address(writer), authorization, subject_of(writer))


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return peer[0] if peer else ""


def _of_a_web_page(request: HttpRequest) -> HttpReply | None:
    """The refusal of a POST that a page of another site could have made a browser send; None if it
    could not. For a body of the type JSON a browser first asks the port for its consent, which the
    port does not give."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        return text("not for web pages of others", 403)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return (
        None if kind == "application/json" else text("Content-Type must be application/json", 415)
    )
