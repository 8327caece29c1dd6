"""Replies of the admin port that go on: server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import h11


class HttpStream(Struct, frozen=True):
    """`events`: events as bytes, each complete. It is closed when the client has gone."""

    events: AsyncGenerator[bytes, None]
    content_type: str = "text/event-stream"


async def send_stream(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    stream: HttpStream,
    timeout_s: float,
) -> None:
    """Sends event after event, until the client goes away or there are no more. Raises OSError, or
    TimeoutError for a client that takes longer than `timeout_s` to read one."""
    import h11

    headers = [
        ("Content-Type", stream.content_type),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    async with aclosing(stream.events) as events:
        writer.write(connection.send(h11.Response(status_code=200, headers=headers)) or b"")
        async for event in events:
            writer.write(connection.send(h11.Data(data=event)) or b"")
            async with asyncio.timeout(timeout_s):
                await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
