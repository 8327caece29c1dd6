"""A small Kafka client: as much as it takes to copy `__consumer_offsets` off a cluster.

It asks for old versions that every broker since 0.11 answers, except for topic ids, which need a
newer Metadata. Plain connections only: no TLS, no SASL.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from coordinator.logtools.errors import LogToolError
from protocol.errors import ErrorCode
from protocol.messages import NO_TOPIC_ID, TopicId
from protocol.wire.encode import Writer
from protocol.wire.reader import MalformedRequest, Reader

CLIENT_ID = "groupd-log"
TIMEOUT_S = 30.0
FETCH_BYTES = 8 * 1024 * 1024
_REPLY_BYTES_MAX = 256 * 1024 * 1024
_FETCH_WAIT_MS = 500
_METADATA_WITH_IDS = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """`leaders`: broker id by partition."""

    name: str
    topic_id: TopicId
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cluster:
    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, TopicInfo]


class Broker:
    """One connection, one request at a time. Raises LogToolError throughout."""

    def __init__(self, host: str, port: int) -> None:
        self._where = f"{host}:{port}"
        self._host, self._port = host, port
        self._correlation = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError) as error:
            raise LogToolError(f"{self._where}: no connection: {error or 'timeout'}") from error

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def cluster(self) -> Cluster:
        """All topics with their leaders, and with ids where the broker knows such."""
        ranges = dict(await self._call(18, 0, Writer(False), _api_versions))
        version = _METADATA_WITH_IDS if ranges.get(3, 0) >= _METADATA_WITH_IDS else 1
        body = Writer(flexible=version > 1)
        body.null_array()
        if version > 1:
            for _ in range(3):  # create none, no lists of permitted operations
                body.boolean(False)
            body.end()
        return await self._call(3, version, body, _metadata)

    async def offset(self, topic: str, partition: int, timestamp: int) -> int:
        """ListOffsets: -2 the first, -1 the end."""
        body = Writer(False)
        body.int32(-1)
        _one_partition(body, topic, partition)
        body.int64(timestamp)
        error, offset = await self._call(2, 1, body, _list_offsets)
        self._check(error, f"ListOffsets of {topic}-{partition}")
        return offset

    async def fetch(self, topic: str, partition: int, offset: int) -> bytes:
        """Whole batches from the one with `offset` on, perhaps with a piece of another behind
        them; transactions of any outcome."""
        body = Writer(False)
        for value in (-1, _FETCH_WAIT_MS, 1, FETCH_BYTES):
            body.int32(value)
        body.int8(0)
        _one_partition(body, topic, partition)
        body.int64(offset)
        body.int32(FETCH_BYTES)
        error, records = await self._call(1, 4, body, _fetched)
        self._check(error, f"Fetch of {topic}-{partition} at {offset}")
        return records

    def _check(self, error: int, what: str) -> None:
        if error != ErrorCode.NONE:
            try:
                name = ErrorCode(error).name
            except ValueError:
                name = "an unknown error"
            raise LogToolError(f"{self._where}: {what}: {name} ({error})")

    async def _call(self, api: int, version: int, body: Writer, read: Callable[[Reader], T]) -> T:
        assert self._writer is not None
        self._correlation += 1
        head = Writer(False)
        head.int16(api)
        head.int16(version)
        head.int32(self._correlation)
        head.nullable_string(CLIENT_ID)
        if body.flexible:
            head.int8(0)
        frame = head.buffer + body.buffer
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._writer.write(struct.pack(">i", len(frame)) + frame)
                await self._writer.drain()
                (length,) = struct.unpack(">i", await self._reader.readexactly(4))
                if not 4 <= length <= _REPLY_BYTES_MAX:
                    raise LogToolError(f"{self._where}: does not speak Kafka's protocol")
                reply = await self._reader.readexactly(length)
        except (OSError, EOFError, TimeoutError) as error:
            raise LogToolError(f"{self._where}: the connection was lost: {error}") from error
        reader = Reader(reply, 4, version, body.flexible)
        try:
            if body.flexible:
                reader.end()
            return read(reader)
        except (MalformedRequest, IndexError, struct.error, UnicodeDecodeError) as error:
            raise LogToolError(f"{self._where}: a reply that makes no sense: {error}") from error


def _one_partition(body: Writer, topic: str, partition: int) -> None:
    body.array_length(1)
    body.string(topic)
    body.array_length(1)
    body.int32(partition)


def _api_versions(reader: Reader) -> tuple[tuple[int, int], ...]:
    """(API, newest version)."""
    reader.int16()

    def one(_: Reader) -> tuple[int, int]:
        api = reader.int16()
        reader.int16()
        return api, reader.int16()

    return reader.array(one)


def _metadata(reader: Reader) -> Cluster:
    newer = reader.version > 1
    if newer:
        reader.int32()
    brokers = dict(reader.array(_node))
    if newer:
        reader.nullable_string()
    reader.int32()
    topics = [topic for topic in reader.array(_topic) if topic is not None]
    return Cluster(brokers, {topic.name: topic for topic in topics})


def _node(reader: Reader) -> tuple[int, tuple[str, int]]:
    node_id, host, port = reader.int32(), reader.string(), reader.int32()
    reader.nullable_string()
    reader.end()
    return node_id, (host, port)


def _topic(reader: Reader) -> TopicInfo | None:
    error, name = reader.int16(), reader.nullable_string()
    topic_id = reader.uuid() if reader.version > 1 else NO_TOPIC_ID
    reader.boolean()
    leaders = dict(reader.array(_partition))
    if reader.version > 1:
        reader.int32()
    reader.end()
    return None if error or name is None else TopicInfo(name, topic_id, leaders)


def _partition(reader: Reader) -> tuple[int, int]:
    reader.int16()
    partition, leader = reader.int32(), reader.int32()
    if reader.version > 1:
        reader.int32()
    for _ in range(3 if reader.version > 1 else 2):
        reader.int32_array()
    reader.end()
    return partition, leader


def _list_offsets(reader: Reader) -> tuple[int, int]:
    def partition(_: Reader) -> tuple[int, int]:
        reader.int32()
        error = reader.int16()
        reader.int64()
        return error, reader.int64()

    return _only(reader, partition)


def _fetched(reader: Reader) -> tuple[int, bytes]:
    def aborted(_: Reader) -> None:
        reader.int64()
        reader.int64()

    def partition(_: Reader) -> tuple[int, bytes]:
        reader.int32()
        error = reader.int16()
        reader.int64()
        reader.int64()
        reader.nullable_array(aborted)
        return error, reader.nullable_bytes() or b""

    reader.int32()
    return _only(reader, partition)


def _only(reader: Reader, partition: Callable[[Reader], T]) -> T:
    """The one partition of the one topic that was asked for."""

    def topic(_: Reader) -> tuple[T, ...]:
        reader.string()
        return reader.array(partition)

    return reader.array(topic)[0][0]
