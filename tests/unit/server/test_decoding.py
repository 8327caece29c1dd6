"""Requests with many items are decoded in a thread, and beyond a limit not at all."""

from __future__ import annotations

import asyncio
import struct

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.server.decoding import ITEMS_DECODED_INLINE
from groupd.protocol.messages.groups import DescribeGroupsRequest
from tests.support.raw import frame, request
from tests.unit.server.harness import AlwaysValid, Client, heartbeat, send_frame

DESCRIBE = 15


def describe(correlation: int, groups: int) -> bytes:
    """DescribeGroups v0 of groups without a name."""
    return frame(request(DESCRIBE, 0, correlation, struct.pack(">i", groups) + bytes(2 * groups)))


async def until_pending(client: Client, requests: int) -> None:
    async with asyncio.timeout(10):
        while len(client.slots) < requests and not client.transport.aborted:
            await asyncio.sleep(0)


async def test_a_long_request_is_decoded_in_a_thread_and_what_is_behind_it_waits() -> None:
    client = Client()
    client.send(describe(1, ITEMS_DECODED_INLINE + 1) + heartbeat(2))
    assert client.pending() == []
    await until_pending(client, 1)
    assert client.pending() == [1]
    assert client.slots[0].request == DescribeGroupsRequest(("",) * (ITEMS_DECODED_INLINE + 1))
    send_frame(client.slots[0], b"")
    await until_pending(client, 2)
    assert client.pending() == [1, 2]
    await client.answer(2)
    assert client.connection.idle


async def test_a_stored_reply_does_not_overtake_a_request_in_the_thread() -> None:
    client = Client()
    client.send(heartbeat(1))
    client.slots[0].validity = AlwaysValid()
    await client.answer(1)
    client.send(heartbeat(2))
    assert client.received() == [1, 2], "stored"
    client.send(describe(3, ITEMS_DECODED_INLINE + 1))
    assert not client.connection.idle
    client.send(heartbeat(4))
    assert client.received() == [1, 2]
    await until_pending(client, 2)
    send_frame(client.slots[1], frame(struct.pack(">i", 3)))
    await until_pending(client, 3)
    await client.answer(4)
    assert client.received() == [1, 2, 3, 4]
    assert client.connection.idle


async def test_others_are_served_meanwhile() -> None:
    client = Client()
    client.at_once = True
    other_transport, other = client.connect()
    client.send(describe(1, 100_000))
    other.data_received(heartbeat(7))
    assert client.pending() == [7]
    assert other_transport.sent
    client.at_once = False
    await until_pending(client, 2)


async def test_short_requests_are_decoded_at_once() -> None:
    client = Client()
    client.send(describe(1, ITEMS_DECODED_INLINE))
    assert client.pending() == [1]


async def test_a_request_beyond_the_limit_closes_its_connection() -> None:
    client = Client(request_max_items=10_000)
    with capture_logs() as logs:
        client.send(describe(1, 10_001))
        await until_pending(client, 1)
    assert client.transport.aborted
    assert client.pending() == []
    assert [entry["reason"] for entry in logs] == [
        "DescribeGroups with more than 10000 items in its arrays"
    ]


async def test_a_long_request_that_is_malformed_closes_its_connection() -> None:
    client = Client()
    body = (
        struct.pack(">i", ITEMS_DECODED_INLINE + 2) + bytes(2 * ITEMS_DECODED_INLINE) + b"\xff\x00"
    )
    client.send(frame(request(DESCRIBE, 0, 1, body)))
    await until_pending(client, 1)
    assert client.transport.aborted


async def test_without_a_thread_one_connection_is_closed_and_the_next_request_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    other_transport, other = client.connect()

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, capture_logs():
        patch.setattr(asyncio.get_running_loop(), "run_in_executor", no_thread, raising=False)
        client.send(describe(1, ITEMS_DECODED_INLINE + 1))
    assert client.transport.aborted
    other.data_received(describe(2, ITEMS_DECODED_INLINE + 1))
    await until_other_pending(client)
    assert client.pending() == [2]
    assert not other_transport.aborted


async def until_other_pending(client: Client) -> None:
    async with asyncio.timeout(10):
        while not client.slots:
            await asyncio.sleep(0)


async def test_a_client_that_leaves_meanwhile_is_forgotten() -> None:
    client = Client()
    client.send(describe(1, 50_000))
    client.connection.abort()
    client.connection.connection_lost(None)
    client.shared.decoder.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert client.pending() == []
