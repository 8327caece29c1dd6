"""The channel: pipelined calls both ways, failures as they were raised, limits, and its end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from groupd.coordinator.workers.channel import Answer, Channel, ChannelBusy, ChannelLost
from groupd.coordinator.workers.messages import WorkerOperation
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import (
    LogCorrupt,
    LogError,
    LogFenced,
    LogUnavailable,
    LogUncertain,
    StoreTaken,
)
from tests.support.remote_store import channel_pair, connect, nothing


class Echo:
    """Answers with what it got; `held` calls wait for `release`."""

    def __init__(self) -> None:
        self.held: dict[bytes, asyncio.Future[bytes]] = {}
        self.seen: list[tuple[WorkerOperation, bytes]] = []

    def serve(self, operation: WorkerOperation, body: bytes) -> Answer:
        self.seen.append((operation, body))
        if operation is not WorkerOperation.READ:
            return body
        self.held[body] = asyncio.get_running_loop().create_future()
        return self.held[body]


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def pair(echo: Echo) -> AsyncIterator[tuple[Channel, Channel]]:
    ends = await channel_pair(nothing, echo.serve)
    yield ends
    for end in ends:
        end.close()
        await end.lost.wait()


async def seen(echo: Echo, count: int) -> None:
    async with asyncio.timeout(5):
        while len(echo.seen) < count:
            await asyncio.sleep(0)


async def test_answers_come_in_any_order(pair: tuple[Channel, Channel], echo: Echo) -> None:
    asker, _ = pair
    first = asker.start_call(WorkerOperation.READ, b"1")
    second = asker.start_call(WorkerOperation.READ, b"2")
    assert await asker.call(WorkerOperation.PING, b"at once") == b"at once"
    echo.held[b"2"].set_result(b"two")
    assert await second == b"two"
    assert not first.done()
    echo.held[b"1"].set_result(b"one")
    assert await first == b"one"
    assert [body for _, body in echo.seen] == [b"1", b"2", b"at once"], "in the order of the calls"


async def test_large_bodies_arrive_whole() -> None:
    ends = await channel_pair(nothing, lambda operation, body: body[::-1])
    body = bytes(range(256)) * 40_000
    answers = await asyncio.gather(*(ends[0].call(WorkerOperation.APPEND, body) for _ in range(3)))
    assert answers == [body[::-1]] * 3
    ends[0].abort()
    await ends[1].lost.wait()


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (LogUnavailable("disk full"), LogUnavailable, "disk full"),
        (StoreTaken("by another"), StoreTaken, "by another"),
        (LogCorrupt("row 7"), LogCorrupt, "row 7"),
        (ValueError("cuts a row"), ValueError, "cuts a row"),
        (KeyError("a bug"), LogUncertain, "KeyError: 'a bug'"),
    ],
)
@pytest.mark.parametrize("later", [False, True])
async def test_failures_are_those_that_were_raised(
    raised: Exception, kind: type[Exception], text: str, later: bool
) -> None:
    async def fail() -> bytes:
        raise raised

    def serve(operation: WorkerOperation, body: bytes) -> Answer:
        if later:
            return fail()
        raise raised

    ends = await channel_pair(nothing, serve)
    with pytest.raises(kind) as caught:
        await ends[0].call(WorkerOperation.READ)
    assert type(caught.value) is kind
    assert str(caught.value) == text
    ends[0].abort()
    await ends[1].lost.wait()


async def test_fenced_logs_and_api_errors_keep_what_they_carry() -> None:
    errors: list[Exception] = [LogFenced(["a", "b"]), ApiError(ErrorCode.NOT_COORDINATOR, "gone")]

    def serve(operation: WorkerOperation, body: bytes) -> Answer:
        raise errors.pop(0)

    ends = await channel_pair(nothing, serve)
    with pytest.raises(LogFenced) as fenced:
        await ends[0].call(WorkerOperation.APPEND)
    assert fenced.value.logs == ("a", "b")
    with pytest.raises(ApiError) as refused:
        await ends[0].call(WorkerOperation.APPEND)
    assert (refused.value.code, refused.value.message) == (ErrorCode.NOT_COORDINATOR, "gone")
    ends[0].abort()
    await ends[1].lost.wait()


async def test_its_end_fails_whoever_waits_and_cancels_what_is_served(echo: Echo) -> None:
    lost: list[str] = []
    asker = Channel(nothing, lambda: lost.append("asker"))
    server = Channel(echo.serve, lambda: lost.append("server"))
    await connect(asker, server)
    waiting = asker.start_call(WorkerOperation.READ, b"1")
    await seen(echo, 1)
    server.abort()
    with pytest.raises(ChannelLost):
        await waiting
    await asker.lost.wait()
    await server.lost.wait()
    assert echo.held[b"1"].cancelled()
    assert sorted(lost) == ["asker", "server"], "each once"
    with pytest.raises(ChannelLost):
        asker.start_call(WorkerOperation.PING)


async def test_a_call_too_many_is_refused_before_it_is_sent(echo: Echo) -> None:
    asker, server = Channel(nothing, calls_max=2), Channel(echo.serve)
    await connect(asker, server)
    calls = [asker.start_call(WorkerOperation.READ, bytes((n,))) for n in range(2)]
    with pytest.raises(ChannelBusy):
        asker.start_call(WorkerOperation.READ, b"too many")
    await seen(echo, 2)
    echo.held[b"\x00"].set_result(b"")
    await calls[0]
    assert await asker.call(WorkerOperation.PING, b"room again") == b"room again"
    server.abort()
    await asker.lost.wait()
    assert isinstance(calls[1].exception(), LogError)


async def test_a_frame_too_large_is_refused_before_it_is_sent(echo: Echo) -> None:
    asker, server = Channel(nothing, frame_bytes_max=100), Channel(echo.serve)
    await connect(asker, server)
    with pytest.raises(ChannelBusy):
        asker.start_call(WorkerOperation.READ, bytes(100))
    assert await asker.call(WorkerOperation.PING, bytes(90)) == bytes(90)
    asker.abort()
    await server.lost.wait()


async def test_an_answer_too_large_is_a_failure(echo: Echo) -> None:
    ends = Channel(nothing), Channel(lambda operation, body: bytes(200), frame_bytes_max=100)
    await connect(*ends)
    with pytest.raises(LogUnavailable):
        await ends[0].call(WorkerOperation.READ)
    ends[0].abort()
    await ends[1].lost.wait()


async def test_a_peer_that_does_not_read_is_not_written_to_for_ever(echo: Echo) -> None:
    asker = Channel(nothing, unsent_bytes_max=100_000)
    ours, theirs = socket.socketpair()
    await asyncio.get_running_loop().create_unix_connection(lambda: asker, sock=ours)
    calls = []

    def fill() -> None:
        while True:
            calls.append(asker.start_call(WorkerOperation.READ, bytes(100_000)))

    with pytest.raises(ChannelBusy):
        fill()
    theirs.close()
    await asker.lost.wait()
    assert all(isinstance(call.exception(), ChannelLost) for call in calls)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">iBIB", 6, 0, 1, 250),
        struct.pack(">iB", 1, 0),
        struct.pack(">i", 0x7FFFFFFF),
    ],
    ids=["negative length", "unknown operation", "cut short", "huge"],
)
async def test_a_peer_that_does_not_speak_it_is_cut_off(garbage: bytes) -> None:
    channel = Channel(nothing)
    ours, theirs = socket.socketpair()
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=ours)
    theirs.sendall(garbage)
    async with asyncio.timeout(5):
        await channel.lost.wait()
    theirs.close()
