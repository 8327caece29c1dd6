"""Reads an HTTP request with its body, up to a limit."""

from __future__ import annotations

import asyncio

import h11

READ_BYTES = 16384


async def read_request(
    connection: h11.Connection, reader: asyncio.StreamReader
) -> h11.Request | None:
    """The head of the request; None if the client is gone."""
    event = await _next(connection, reader)
    return event if isinstance(event, h11.Request) else None


async def read_body(
    connection: h11.Connection, reader: asyncio.StreamReader, limit_bytes: int
) -> bytes | None:
    """The whole body; None as soon as it exceeds the limit."""
    body = bytearray()
    while isinstance(event := await _next(connection, reader), h11.Data):
        body += event.data
        if len(body) > limit_bytes:
            return None
    return bytes(body)


async def drop_body(
    connection: h11.Connection, reader: asyncio.StreamReader, limit_bytes: int
) -> None:
    """Reads the body up to the limit and keeps nothing. A client that is still sending when the
    connection is closed may not get its reply."""
    left = limit_bytes
    while left > 0 and isinstance(event := await _next(connection, reader), h11.Data):
        left -= len(event.data)


async def _next(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(READ_BYTES))
    return event
