"""Connections with TLS take turns in having their records decrypted."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.server.shared_resources import READ_BYTES
from groupd.coordinator.server.tls_connection import TlsConnection
from tests.unit.server.test_tls_connection import Peer, Setting
from tests.unit.server.test_turns import EACH, Loop


async def opened(loop: Loop) -> Peer:
    return await Setting().peer(turns=loop.turns).open()


def one_by_one(peer: Peer, data: bytes) -> bytes:
    """`data` in records of one byte."""
    return b"".join(peer.encrypted(data[at : at + 1]) for at in range(len(data)))


@pytest.fixture
def decrypted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the records that OpenSSL has got."""
    sizes: list[int] = []
    original = TlsConnection._data_of
    monkeypatch.setattr(
        TlsConnection,
        "_data_of",
        lambda one, size: (sizes.append(size), original(one, size))[1],
    )
    return sizes


async def test_when_a_turn_is_old_records_are_decrypted_in_shares(decrypted: list[int]) -> None:
    loop = Loop()
    peer = await opened(loop)
    data = bytes(range(100))
    loop.grows_old()
    decrypted.clear()
    peer.tls.data_received(one_by_one(peer, data))
    assert decrypted == []
    assert not peer.socket.reading, "what has come must be decrypted before more is read"
    for turn in range(1, 5):
        await asyncio.sleep(0)
        assert len(decrypted) == turn * EACH
        assert peer.inside.got[-1] == data[(turn - 1) * EACH : turn * EACH], "as one piece"
    while len(decrypted) < 100:
        await asyncio.sleep(0)
    assert b"".join(peer.inside.got) == data
    assert peer.socket.reading


async def test_a_single_record_never_waits_for_those_of_others() -> None:
    loop = Loop()
    greedy, modest = await opened(loop), await opened(loop)
    loop.grows_old()
    greedy.tls.data_received(one_by_one(greedy, b"many"))
    modest.tls.data_received(modest.encrypted(b"one"))
    assert (greedy.inside.got, modest.inside.got) == ([], [b"one"])


async def test_who_fills_a_read_gets_in_line() -> None:
    loop = Loop()
    peer = await opened(loop)
    record = peer.encrypted(bytes(READ_BYTES))
    loop.grows_old()
    peer.tls.data_received(record[:READ_BYTES])
    assert not peer.socket.reading
    await asyncio.sleep(0)
    assert peer.socket.reading
    peer.tls.data_received(record[READ_BYTES:])
    assert peer.inside.got == [bytes(READ_BYTES)]


async def test_a_step_of_a_handshake_waits_while_the_turn_is_used_up(decrypted: list[int]) -> None:
    loop = Loop()
    peer = Setting().peer(turns=loop.turns)
    peer.tls.data_received(peer.shake())
    await asyncio.sleep(0)
    loop.grows_old()
    before = len(decrypted)
    peer.tls.data_received(peer.shake())
    assert len(decrypted) == before
    loop.begins_a_turn()
    await asyncio.sleep(0)
    assert len(decrypted) > before
    peer.tls.data_received(peer.encrypted(b"request"))
    assert peer.inside.got == [b"request"]


async def test_the_request_behind_a_handshake_needs_no_further_turn() -> None:
    loop = Loop()
    peer = Setting().peer(turns=loop.turns)
    peer.tls.data_received(peer.shake())
    await asyncio.sleep(0)
    loop.grows_old()
    peer.tls.data_received(peer.shake() + peer.encrypted(b"request"))
    assert peer.inside.got == []
    await asyncio.sleep(0)
    assert peer.inside.got == [b"request"]


async def test_nothing_is_decrypted_while_the_connection_inside_wants_nothing() -> None:
    peer = await Setting().peer().open()
    peer.inside.transport.pause_reading()
    peer.tls.data_received(one_by_one(peer, b"later"))
    await asyncio.sleep(0)
    assert peer.inside.got == []
    assert not peer.socket.reading
    peer.inside.transport.resume_reading()
    assert peer.inside.got == [], "whoever resumes is in the middle of something"
    await asyncio.sleep(0)
    assert peer.inside.got == [b"later"]
    assert peer.socket.reading


async def test_a_connection_that_is_gone_leaves_the_line(decrypted: list[int]) -> None:
    loop = Loop()
    gone = await opened(loop)
    loop.grows_old()
    decrypted.clear()
    gone.tls.data_received(one_by_one(gone, b"many"))
    gone.tls.connection_lost(None)
    await asyncio.sleep(0)
    assert decrypted == []


async def test_the_connection_inside_says_how_much_is_read() -> None:
    peer = await Setting().peer().open()
    room = memoryview(bytearray(7))
    peer.inside.get_buffer = lambda sizehint: room  # type: ignore[method-assign]
    assert peer.tls.get_buffer(-1) is room
