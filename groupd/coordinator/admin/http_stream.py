"""Replies of the admin port that go on: server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    import h11


Event = tuple[memoryview, ...]
"""The parts of an event, which may be long and which many clients read: nobody copies them."""

PIECE_BYTES = 64 * 1024
"""So much is written before a client has to read."""


class HttpStream(Struct, frozen=True):
    """`first`: the events that come before `events`; each is taken out when it is sent, since a
    stream may stay open for days. `events`: it is closed when the client has gone."""

    events: AsyncGenerator[Event, None]
    first: list[Event] = field(default_factory=list)
    content_type: str = "text/event-stream"


async def send_stream(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    stream: HttpStream,
    timeout_s: float,
    *,
    head: bool,
) -> None:
    """Sends event after event, until the client goes away or there are no more; with `head` none.
    Raises OSError, or TimeoutError for a client that takes longer than `timeout_s` for a piece of
    `PIECE_BYTES`; events may be long and the way to the client slow."""
    import h11

    headers = [
        ("Content-Type", stream.content_type),
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
                del event  # it may be long, and the next one may be far away
    _put(writer, connection.send(h11.EndOfMessage()))


async def _send_event(
    connection: h11.Connection, writer: asyncio.StreamWriter, event: Event, timeout_s: float
) -> None:
    for part in event:
        for first in range(0, len(part), PIECE_BYTES):
            async with asyncio.timeout(timeout_s):
                await _write(connection, writer, part[first : first + PIECE_BYTES])


async def _write(
    connection: h11.Connection, writer: asyncio.StreamWriter, piece: memoryview
) -> None:
    import h11

    # The data is passed on as it is, which any object with a length can be.
    data = h11.Data(data=piece)  # type: ignore[arg-type]
    for part in connection.send_with_data_passthrough(data) or ():
        _put(writer, part)
    await writer.drain()
    await asyncio.sleep(0)  # a client that reads at once would keep all others waiting


def _put(writer: asyncio.StreamWriter, data: bytes | None) -> None:
    """Raises ConnectionResetError if the client has gone; uvloop would raise a RuntimeError."""
    if writer.is_closing():
        raise ConnectionResetError("the client has gone")
    writer.write(data or b"")
