"""One connection: order of requests and replies, limits, what closes it."""

from __future__ import annotations

import asyncio
import struct

import pytest
from structlog.testing import capture_logs

from groupd.protocol.errors import ErrorCode
from tests.support.raw import api_versions, fetch, frame, metadata, request
from tests.unit.server.harness import (
    PRODUCE,
    Client,
    correlations,
    heartbeat,
    join,
    produce,
    reply_to,
    send_frame,
    sync,
)


def batch(*numbers: int) -> bytes:
    return b"".join(heartbeat(number) for number in numbers)


# Order --------------------------------------------------------------------------------------


async def test_replies_leave_in_the_order_of_the_requests() -> None:
    client = Client()
    client.send(batch(1, 2, 3))
    assert client.pending() == [1, 2, 3], "requests are worked on side by side"
    await client.answer(3)
    await client.answer(2)
    assert client.received() == []
    await client.answer(1)
    assert client.received() == [1, 2, 3]
    assert client.connection.idle


ALONE = {
    "join": join,
    "sync": sync,
    "api versions": api_versions,
    "metadata": metadata,
    "fetch": lambda number: fetch(number, "t", 0, 0, 1000),
    "malformed produce": lambda number: frame(request(PRODUCE, 9, number, b"\x00\xff")),
}


@pytest.mark.parametrize("alone", list(ALONE))
async def test_a_request_of_no_lane_waits_for_all_before_it_and_holds_what_is_behind(
    alone: str,
) -> None:
    client = Client()
    client.send(heartbeat(1) + heartbeat(2) + ALONE[alone](3) + batch(4, 5))
    assert client.pending() == [1, 2]
    await client.answer(2)
    assert client.pending() == [1, 2]
    await client.answer(1)
    if alone == "malformed produce":
        assert client.transport.aborted
        return
    assert client.pending() == [1, 2, 3]
    assert not client.connection._at_rest
    send_frame(client.slots[2], b"")
    await asyncio.sleep(0)
    assert client.pending() == [1, 2, 3, 4, 5]
    await client.answer(4)
    await client.answer(5)
    assert client.received() == [1, 2, 4, 5]
    assert client.connection.idle


async def test_produces_of_one_transactional_id_or_none_are_under_way_together() -> None:
    client = Client()
    client.send(produce(1) + produce(2) + heartbeat(3) + heartbeat(4))
    client.send(produce(5, "a") + produce(6, "a") + produce(7, "b") + produce(8))
    started: list[int] = []
    for together in ([1, 2], [3, 4], [5, 6], [7], [8]):
        started += together
        assert client.pending() == started
        for number in together:
            send_frame(client.slots[number - 1], b"")
        await asyncio.sleep(0)
    assert client.connection.idle


async def test_an_answer_never_starts_the_next_request_itself() -> None:
    client = Client()
    client.send(join(1) + heartbeat(2))
    client.slots[0].send(reply_to(client.slots[0]))
    assert client.received() == [1]
    assert client.pending() == [1], "whoever answers is in the middle of something"
    await asyncio.sleep(0)
    assert client.pending() == [1, 2]


async def test_requests_arrive_byte_by_byte() -> None:
    client = Client()
    client.at_once = True
    for byte in batch(1, 2):
        client.send(bytes([byte]))
    assert client.received() == [1, 2]


async def test_requests_in_one_segment_are_answered_with_one_write() -> None:
    client = Client()
    client.at_once = True
    writes = []
    write = client.transport.write
    client.transport.write = lambda data: (writes.append(len(data)), write(data))[1]  # type: ignore[method-assign]
    client.send(batch(*range(50)))
    assert client.received() == list(range(50))
    assert len(writes) == 1


async def test_more_requests_in_one_segment_than_may_be_under_way_are_all_answered() -> None:
    client = Client(queued_max_requests=4)
    client.at_once = True
    client.send(batch(*range(50)))
    assert client.received() == list(range(50))
    assert client.transport.reading


async def test_no_reply_keeps_its_place_empty() -> None:
    """Produce with acks=0: the broker resolves with None."""
    client = Client()
    client.send(batch(1, 2, 3))
    await client.answer(3)
    client.slots[1].send(None)
    assert client.received() == []
    await client.answer(1)
    assert client.received() == [1, 3]
    assert client.connection.idle


async def test_a_request_without_a_reply_that_fails_ends_the_connection_in_its_turn() -> None:
    client = Client()
    client.send(batch(1, 2, 3))
    await client.answer(3)
    client.slots[1].hang_up()
    assert not client.transport.closing
    await client.answer(1)
    assert client.received() == [1]
    assert client.transport.closing
    assert not client.transport.aborted


# What closes it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (request(9999, 0, 1), "unsupported API 9999 v0"),
        (request(12, 99, 1, b"\x00"), "unsupported API 12 v99"),
        (request(12, -1, 1), "unsupported API 12 v-1"),
        (request(12, 0, 1, b"\x00"), None),
        (b"\x00", None),
        (b"", None),
    ],
    ids=["key", "version", "negative", "short body", "short header", "empty"],
)
async def test_what_cannot_be_served_closes_the_connection_with_one_line(
    payload: bytes, reason: str | None
) -> None:
    client = Client()
    with capture_logs() as logs:
        client.send(frame(payload) + heartbeat(2))
    assert client.transport.aborted
    assert client.pending() == [], "what stands behind is not looked at"
    (line,) = logs
    assert (line["event"], line["client"]) == ("connection closed", "/10.0.0.7")
    if reason is not None:
        assert line["reason"] == reason
    assert client.stats.malformed == 1


@pytest.mark.parametrize("length", [-1, 2000, 0x7FFFFFFF])
async def test_a_frame_of_impossible_length_closes_it_after_the_ones_before(length: int) -> None:
    client = Client(socket_request_max_bytes=1024)
    with capture_logs() as logs:
        client.send(heartbeat(1) + struct.pack(">i", length))
    assert client.pending() == [1]
    assert client.transport.aborted
    assert len(logs) == 1
    assert client.stats.malformed == 1


async def test_a_bad_request_before_a_bad_frame_is_one_line() -> None:
    client = Client()
    with capture_logs() as logs:
        client.send(frame(request(9999, 0, 1)) + struct.pack(">i", -1))
    assert len(logs) == 1
    assert client.stats.malformed == 1


async def test_a_frame_of_the_largest_size_is_taken() -> None:
    client = Client(socket_request_max_bytes=1024)
    padding = request(12, 0, 1)
    client.send(frame(padding + b"\x00" * (1024 - len(padding))))
    assert client.stats.malformed <= 1
    assert client.transport.aborted or client.pending() == [1]
    other = Client(socket_request_max_bytes=len(heartbeat(1)) - 4)
    other.send(heartbeat(1))
    assert other.pending() == [1]


async def test_api_versions_of_an_unknown_version_is_answered_with_v0() -> None:
    client = Client()
    newer = frame(request(18, 120, 2, b"\x00 fields nobody knows yet"))
    client.send(heartbeat(1) + newer + heartbeat(3))
    assert client.pending() == [1]
    await client.answer(1)
    assert client.pending() == [1, 3]
    await client.answer(3)
    assert client.received() == [1, 2, 3]
    assert not client.transport.aborted
    first = 4 + struct.unpack_from(">i", client.transport.sent)[0]
    code, count = struct.unpack_from(">hi", client.transport.sent, first + 8)
    assert code == ErrorCode.UNSUPPORTED_VERSION
    assert count >= 1, "a client must learn which versions of ApiVersions there are"


async def test_a_reply_that_cannot_be_encoded_closes_the_connection_and_harms_nobody_else() -> None:
    client = Client()
    client.send(heartbeat(1))
    with capture_logs() as logs:
        client.slots[0].send(object())
    assert client.transport.aborted
    assert [line["event"] for line in logs] == ["reply cannot be sent"]


async def test_what_comes_after_the_end_is_ignored() -> None:
    client = Client()
    client.connection.abort()
    client.send(heartbeat(1))
    assert client.pending() == []
    client.connection.connection_lost(None)


async def test_a_lost_connection_forgets_its_open_requests_only() -> None:
    client = Client()
    client.send(batch(1, 2, 3) + join(4))
    await client.answer(2)
    client.connection.connection_lost(None)
    assert [slot.header.correlation_id for slot in client.forgotten] == [1, 3]
    assert (client.stats.open, len(client.registry)) == (0, 0)
    await client.answer(1)
    await client.answer(3)
    assert client.pending() == [1, 2, 3], "what waited behind them is never looked at"
    assert client.transport.sent == b""
    assert client.clock.next_timer_ms() is None


# Limits -------------------------------------------------------------------------------------


async def test_too_many_requests_under_way_pause_reading_until_one_is_answered() -> None:
    client = Client(queued_max_requests=2)
    client.send(batch(1, 2))
    assert not client.transport.reading
    client.send(batch(3))  # what the socket had read already
    assert client.pending() == [1, 2]
    await client.answer(2)
    assert not client.transport.reading, "its reply still waits in line"
    await client.answer(1)
    assert client.pending() == [1, 2, 3]
    assert client.transport.reading
    await client.answer(3)
    assert client.received() == [1, 2, 3]


async def test_a_parked_join_pauses_reading_once_something_waits_behind_it() -> None:
    client = Client()
    client.send(join(1))
    assert client.transport.reading
    client.send(heartbeat(2))
    assert not client.transport.reading
    await client.answer(1)
    assert client.transport.reading


async def test_unread_replies_pause_reading_and_resume_when_they_are_read() -> None:
    client = Client(write_buffer_max_bytes=1024)
    client.at_once = client.transport.hold = True
    client.send(batch(*range(200)))
    assert not client.transport.reading
    client.send(batch(200, 201))
    assert len(client.slots) == 200, "nothing new is started"
    client.transport.hold = False
    client.transport.drain()
    client.connection.resume_writing()
    assert client.received() == list(range(202))
    assert client.transport.reading
    assert client.clock.next_timer_ms() is None


async def test_a_client_that_reads_nothing_for_too_long_is_dropped() -> None:
    client = Client(write_buffer_max_bytes=1024, write_stall_timeout_ms=5000)
    client.at_once = client.transport.hold = True
    client.send(batch(*range(200)))
    client.clock.advance(4999)
    assert not client.transport.aborted
    with capture_logs() as logs:
        client.clock.advance(1)
    assert client.transport.aborted
    assert client.stats.stalled == 1
    assert len(logs) == 1


async def test_a_client_that_reads_slowly_is_kept() -> None:
    client = Client(write_buffer_max_bytes=1024, write_stall_timeout_ms=5000)
    client.at_once = client.transport.hold = True
    client.send(batch(*range(200)))
    for _ in range(5):
        client.transport.drain(10)
        client.clock.advance(5000)
        assert not client.transport.aborted
    client.clock.advance(5000)
    assert client.transport.aborted


# Shutdown -----------------------------------------------------------------------------------


async def test_after_stop_reading_what_is_under_way_is_answered_and_nothing_is_read() -> None:
    client = Client()
    client.send(heartbeat(1) + heartbeat(2) + join(3))
    client.connection.stop_reading()
    client.send(heartbeat(4))
    await client.answer(2)
    await client.answer(1)
    assert client.received() == [1, 2]
    assert client.pending() == [1, 2]
    assert not client.transport.reading
    client.connection.close()
    assert client.transport.closing
    assert not client.transport.aborted


async def test_stop_reading_an_idle_connection_reads_no_more() -> None:
    client = Client()
    client.connection.stop_reading()
    assert not client.transport.reading
    client.connection.resume_writing()
    assert not client.transport.reading


def test_the_test_reads_replies_right() -> None:
    with pytest.raises(AssertionError):
        correlations(struct.pack(">ii", 40, 7))
