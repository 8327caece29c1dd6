"""How much of a socket is read: no more than is free, until a large frame has its room."""

from __future__ import annotations

from groupd.coordinator.server.byte_budget import FREE_BYTES
from groupd.coordinator.server.shared_resources import LARGE_READ_BYTES, READ_BYTES
from groupd.protocol.wire.framing import LARGE
from tests.support.raw import api_versions, frame
from tests.unit.server.harness import Client, heartbeat

MB = 1 << 20


def read(client: Client, data: bytes) -> list[int]:
    """Reads `data` as a socket does, as long as the connection wants it. Returns the sizes."""
    sizes = []
    while data and client.transport.reading:
        with client.connection.get_buffer(-1)[:] as room:
            size = min(len(room), len(data))
            room[:size] = data[:size]
        client.connection.buffer_updated(size)
        data = data[size:]
        sizes.append(size)
    return sizes


def without_room() -> Client:
    """A client beside another one that holds everything."""
    client = Client()
    _, other = client.connect()
    other.account.grow(2 * client.shared.budget.limit)
    return client


def large(size: int) -> bytes:
    request = api_versions(1)[4:]
    return frame(request + bytes(size - len(request)))


async def test_small_requests_are_read_in_small_pieces() -> None:
    client = Client()
    client.at_once = True
    beats = b"".join(map(heartbeat, range(2000)))
    sizes = read(client, beats)
    assert sizes[:-1] == [READ_BYTES] * (len(beats) // READ_BYTES)
    assert client.received() == list(range(2000))


async def test_a_large_frame_that_has_its_room_is_read_in_large_pieces() -> None:
    client = Client()
    sizes = read(client, large(MB) + heartbeat(2))
    rest = MB + 4 - READ_BYTES
    whole = rest // LARGE_READ_BYTES
    assert sizes[:-1] == [READ_BYTES, *[LARGE_READ_BYTES] * whole, rest % LARGE_READ_BYTES]
    assert sizes[-1] == len(heartbeat(2)), "what stands behind it is not read with it"
    assert client.pending() == [1]


async def test_without_room_no_more_is_kept_than_is_free() -> None:
    client = without_room()
    assert read(client, large(MB)) == [READ_BYTES]
    assert not client.transport.reading
    assert client.connection.account.size == 0
    assert READ_BYTES <= FREE_BYTES
    assert LARGE <= READ_BYTES, "an unfinished frame that fills a read has to ask for room"


async def test_a_frame_that_is_just_too_large_for_a_read_asks_for_room() -> None:
    client = without_room()
    assert read(client, large(READ_BYTES)) == [READ_BYTES]
    assert not client.transport.reading
    client = Client()
    assert read(client, large(READ_BYTES)) == [READ_BYTES, 4]
    assert client.pending() == [1]
