"""Records of TLS: cut out of what comes, and limited where they bring no data."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from groupd.coordinator.server.tls_connection import RECORD_MAX, SILENT_MAX, Records
from tests.support.certificates import client_context
from tests.support.tls_keys import CIPHER, DATA, ClientKeys
from tests.unit.server.test_tls_connection import CA, Peer, Setting

OF_THE_HANDSHAKE = 5
"""At most so many records of a client come before its data."""


def record(body: bytes, kind: int = 23) -> bytes:
    return bytes([kind, 3, 3]) + len(body).to_bytes(2) + body


WHOLE = [record(b"one"), record(b""), record(bytes(RECORD_MAX)), record(b"four", 21)]


def whole(records: Records, data: bytes) -> list[bytes]:
    """The records that `data` completes."""
    records.feed(data)
    found = []
    while size := records.size():
        found.append(records.take(size))
    return found


@pytest.mark.parametrize("size", [1, 2, 5, 7, 16_000, 1 << 20])
def test_records_come_out_as_a_whole(size: int) -> None:
    data = b"".join(WHOLE) + b"\x17\x03"
    records = Records()
    found = [
        one for at in range(0, len(data), size) for one in whole(records, data[at : at + size])
    ]
    assert found == WHOLE
    assert records.left == 2
    assert whole(records, b"\x03\x00\x01x") == [record(b"x")]
    assert records.left == 0


def test_records_are_taken_one_by_one() -> None:
    records = Records()
    records.feed(record(b"one") + record(b"two")[:-1])
    one, two = record(b"one"), record(b"two")
    assert (records.size(), records.left) == (len(one), len(one) + len(two) - 1)
    assert records.take(len(one)) == one
    assert (records.size(), records.left) == (0, len(two) - 1)
    records.feed(b"o" + record(b"three"))
    assert records.size() == len(two)
    assert records.take(len(two)) == two
    assert records.size() == records.left == len(record(b"three"))


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1", b"\x17\x03\x03\xff\xff", bytes(9)])
def test_what_can_be_no_record_does_not_wait(junk: bytes) -> None:
    records = Records()
    assert whole(records, record(b"one") + junk) == [record(b"one"), junk]
    assert whole(records, b"") == []


async def opened(tmp_path: Path) -> tuple[Peer, ClientKeys]:
    context = client_context(CA, version=ssl.TLSVersion.TLSv1_3)
    context.keylog_filename = str(tmp_path / "keys")
    peer = Setting().peer()
    peer.client = context.wrap_bio(peer._in, peer._out, server_hostname="127.0.0.1")
    await peer.open()
    assert peer.client.cipher() == (CIPHER, "TLSv1.3", 256)
    return peer, ClientKeys(tmp_path / "keys")


async def test_a_client_may_change_its_keys(tmp_path: Path) -> None:
    peer, keys = await opened(tmp_path)
    changes = b"".join(keys.new_keys() for _ in range(SILENT_MAX - OF_THE_HANDSHAKE))
    peer.tls.data_received(changes + keys.record(DATA, b"request"))
    assert peer.inside.got == [b"request"]
    assert not peer.socket.closing


async def test_a_client_that_only_changes_its_keys_is_cut_off(tmp_path: Path) -> None:
    """SE-92. Data between them changes nothing: each costs more than it does its sender."""
    peer, keys = await opened(tmp_path)
    for _ in range(SILENT_MAX + 1):
        assert not peer.socket.closing or peer.socket.aborted
        peer.tls.data_received(keys.new_keys() + keys.record(DATA, b"x"))
        if peer.socket.closing:
            break
    assert peer.socket.aborted
    assert SILENT_MAX - OF_THE_HANDSHAKE <= len(peer.inside.got) <= SILENT_MAX


async def test_a_handshake_of_endless_records_is_cut_off() -> None:
    peer = Setting().peer()
    peer.tls.data_received(peer.shake())
    await asyncio.sleep(0)
    peer.tls.data_received(record(b"\x01", 20) * 100_000)
    assert peer.socket.closing
    assert peer.inside.got == []
