"""One pipelined connection, and the requests of the load as bytes: written by hand, because the
load shall keep a daemon busy from the other half of a machine with two cores."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.kio_entities import Plain, message_class, read_response, request_bytes
from tests.support.raw import string

TIMEOUT_S = 60.0

_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Reader:
    """Fields of a reply, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _number(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack_from(self._data, self._at)
        self._at += kind.size
        return int(value)

    def i16(self) -> int:
        return self._number(_I16)

    def i32(self) -> int:
        return self._number(_I32)

    def i64(self) -> int:
        return self._number(_I64)

    def bytes(self, size: int) -> bytes:
        self._at += max(size, 0)
        return self._data[self._at - max(size, 0) : self._at]

    def string(self) -> str:
        return self.bytes(self.i16()).decode()

    def skip(self, size: int) -> None:
        self._at += size


class Connection:
    """Any number of requests at a time; replies come in their order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._correlation = 0
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def close(self) -> None:
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def send(
        self, key: int, version: int, body: bytes, tagged: bool = False
    ) -> asyncio.Future[bytes]:
        """The future is the reply behind its correlation id, or a ConnectionError."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._task.done():
            _end(future)
            return future
        self._correlation += 1
        header = struct.pack(">hhi", key, version, self._correlation) + string("crash")
        frame = header + (b"\x00" if tagged else b"") + body
        self._writer.write(_I32.pack(len(frame)) + frame)
        self._waiting.append(future)
        return future

    async def call(self, key: int, version: int, body: bytes) -> Reader:
        async with asyncio.timeout(TIMEOUT_S):
            return Reader(await self.send(key, version, body))

    async def ask(self, api: str, version: int, fields: Mapping[str, Any]) -> Plain:
        """Like `call`, for an API of a flexible version, with kio's names."""
        request = message_class(api, version, "request")
        body = request_bytes(api, version, fields)
        async with asyncio.timeout(TIMEOUT_S):
            reply = await self.send(request.__api_key__, version, body, tagged=True)
        return read_response(api, version, reply[1:])

    async def _read(self) -> None:
        try:
            while True:
                (size,) = _I32.unpack(await self._reader.readexactly(4))
                frame = await self._reader.readexactly(size)
                future = self._waiting.popleft()
                if not future.done():
                    future.set_result(frame[4:])
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            for future in self._waiting:
                if not future.done():
                    _end(future)


def _end(future: asyncio.Future[bytes]) -> None:
    future.set_exception(ConnectionResetError())
    future.exception()  # nobody may be left to ask for it


Entry = tuple[int, int, str]
"""Partition, offset, metadata."""


def commit_body(
    group: str, topic: str, entries: Sequence[Entry], generation: int = -1, member: str = ""
) -> bytes:
    """OffsetCommit v7."""
    body = string(group) + _I32.pack(generation) + string(member) + _I16.pack(-1)
    body += _I32.pack(1) + string(topic) + _I32.pack(len(entries))
    for partition, offset, metadata in entries:
        body += struct.pack(">iqi", partition, offset, -1) + string(metadata)
    return body


def commit_errors(reply: Reader) -> list[int]:
    """The error of each partition, in a reply about one topic."""
    reply.skip(8)
    reply.string()
    return [(reply.i32(), reply.i16())[1] for _ in range(reply.i32())]


def offset_fetch_body(group: str, topic: str, partitions: Sequence[int]) -> bytes:
    """OffsetFetch v5."""
    body = string(group) + _I32.pack(1) + string(topic) + _I32.pack(len(partitions))
    return body + b"".join(_I32.pack(partition) for partition in partitions)


def fetched_offsets(reply: Reader) -> dict[int, int]:
    """Partition -> offset, of a reply about one topic."""
    reply.skip(8)
    reply.string()
    offsets = {}
    for _ in range(reply.i32()):
        partition, offset = reply.i32(), reply.i64()
        reply.skip(4)
        reply.string()
        assert reply.i16() == 0
        offsets[partition] = offset
    assert reply.i16() == 0
    return offsets


def produce_body(topic: str, partition: int, batch: bytes) -> bytes:
    """Produce v7, acks=all."""
    body = struct.pack(">hhii", -1, -1, 10_000, 1) + string(topic)
    return body + struct.pack(">iii", 1, partition, len(batch)) + batch


def produced(reply: Reader) -> tuple[int, int]:
    """(error, base offset) of the only partition."""
    reply.skip(4)
    reply.string()
    reply.skip(8)
    return reply.i16(), reply.i64()


def data_fetch_body(topic: str, partition: int, offset: int) -> bytes:
    """Fetch v4, which does not wait."""
    body = struct.pack(">iiiibi", -1, 0, 1, 1 << 24, 0, 1) + string(topic)
    return body + struct.pack(">iiqi", 1, partition, offset, 1 << 24)


def fetched_records(reply: Reader) -> tuple[int, int, bytes]:
    """(error, high watermark, batches) of the only partition."""
    reply.skip(8)
    reply.string()
    reply.skip(8)
    error, high_watermark = reply.i16(), reply.i64()
    reply.skip(8)
    reply.skip(16 * max(reply.i32(), 0))
    return error, high_watermark, reply.bytes(reply.i32())
