"""HTTP/1.1 on a connection of the admin port, over h11: reads requests, sends replies and streams.

h11 takes some milliseconds to load, so `http_server` imports this module late, in a thread.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from urllib.parse import parse_qs, urlsplit

import h11

from groupd.coordinator.admin.http_messages import (
    HttpReply,
    HttpRequest,
    HttpStream,
    StreamEvent,
    refusal,
    segments_of,
)

READ_BYTES = 16384
PIECE_BYTES = 64 * 1024
"""How many bytes of a stream are written before the client has to read."""
PARAMETERS_MAX = 32


async def read_request(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> HttpRequest | None:
    """The request without its body; None if the client is gone. Raises Refusal."""
    event = await _next(connection, reader)
    return _parsed(event) if isinstance(event, h11.Request) else None


async def read_body(
    connection: h11.Connection, reader: asyncio.StreamReader, limit_bytes: int
) -> bytes | None:
    """The whole body; None as soon as it is longer than `limit_bytes`."""
    body = bytearray()
    while isinstance(event := await _next(connection, reader), h11.Data):
        body += event.data
        if len(body) > limit_bytes:
            return None
    return bytes(body)


async def drop_body(
    connection: h11.Connection, reader: asyncio.StreamReader, limit_bytes: int
) -> None:
    """Reads the body up to `limit_bytes` and keeps nothing. If the connection were closed while the
    client is still sending, the client might not get its reply."""
    left = limit_bytes
    while left > 0 and isinstance(event := await _next(connection, reader), h11.Data):
        left -= len(event.data)


def _parsed(request: h11.Request) -> HttpRequest:
    try:
        parts = urlsplit(request.target.decode("latin-1"))
        query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise refusal("bad request") from None
    return HttpRequest(
        segments_of(parts.path),
        {key: values[0] for key, values in query.items()},
        request.method.decode("latin-1"),
        {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers},
    )


async def _next(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(READ_BYTES))
    return event


async def send_reply(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    reply: HttpReply,
    timeout_s: float,
    *,
    head: bool = False,
) -> None:
    """Sends the reply and ends the connection. Raises OSError, or TimeoutError if the client does
    not read it within `timeout_s`."""
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or writer.is_closing():
        return
    headers = [
        ("Content-Type", reply.content_type),
        ("Content-Length", str(len(reply.body))),
        ("Connection", "close"),
        *reply.headers,
    ]
    writer.write(connection.send(h11.Response(status_code=reply.status, headers=headers)) or b"")
    if not head:
        writer.write(connection.send(h11.Data(data=reply.body)) or b"")
    async with asyncio.timeout(timeout_s):
        writer.close()
        await writer.wait_closed()  # until all bytes are sent


async def send_stream(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    stream: HttpStream,
    timeout_s: float,
    *,
    head: bool,
) -> None:
    """Sends one event after another, until the client is gone or there are no more; with `head` it
    sends none. Raises OSError, or TimeoutError if the client takes longer than `timeout_s` for a
    piece of `PIECE_BYTES`: there is no limit for a whole event, because events may be long and the
    network slow."""
    headers = [
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    async with aclosing(stream.events) as events:
        _put(writer, connection.send(h11.Response(status_code=200, headers=headers)))
        if not head:
            while stream.first:
                await _send_event(connection, writer, stream.first.pop(0), timeout_s)
            async for event in events:
                await _send_event(connection, writer, event, timeout_s)
                del event  # it may be long, and the next event may come much later
    _put(writer, connection.send(h11.EndOfMessage()))


async def _send_event(
    connection: h11.Connection, writer: asyncio.StreamWriter, event: StreamEvent, timeout_s: float
) -> None:
    for part in event:
        for first in range(0, len(part), PIECE_BYTES):
            async with asyncio.timeout(timeout_s):
                await _write(connection, writer, part[first : first + PIECE_BYTES])


async def _write(
    connection: h11.Connection, writer: asyncio.StreamWriter, piece: memoryview
) -> None:
    # h11 passes the data on as it is, so any object with a length will do.
    data = h11.Data(data=piece)  # type: ignore[arg-type]
    for part in connection.send_with_data_passthrough(data) or ():
        _put(writer, part)
    await writer.drain()
    await asyncio.sleep(0)  # a client that reads at once would keep all others waiting


def _put(writer: asyncio.StreamWriter, data: bytes | None) -> None:
    """Writes the data. Raises ConnectionResetError if the client is gone; uvloop alone would raise
    a RuntimeError."""
    if writer.is_closing():
        raise ConnectionResetError("the client has gone")
    writer.write(data or b"")
