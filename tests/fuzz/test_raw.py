"""Raw streams of frames and of TLS records: the same for the same seed, and what they are to be."""

from __future__ import annotations

import random
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from tests.fuzz.logins import WITHOUT
from tests.fuzz.mutation import frames_of
from tests.fuzz.raw_frames import raw_frames
from tests.fuzz.raw_records import RawTlsLine
from tests.fuzz.scripted_broker import broker, carry_out
from tests.fuzz.seeds import Known
from tests.fuzz.talk import Talk, Way, one_stream
from tests.support.certificates import truststore
from tests.support.raw import api_versions

SEEDS = range(300)


def test_a_raw_stream_is_made_of_its_seed() -> None:
    streams = [raw_frames(seed) for seed in SEEDS]
    assert streams == [raw_frames(seed) for seed in SEEDS]
    assert len(set(streams)) > 0.9 * len(SEEDS)


def test_raw_streams_have_what_nobody_sends() -> None:
    found = [frames_of(raw_frames(seed)) for seed in SEEDS]
    frames = [one for its, _, _ in found for one in its]
    assert sum(not one for one in frames) > 10_000
    assert {len(one) for one in frames} >= set(range(14))
    assert sum(ends for _, ends, _ in found) > 10
    assert sum(bool(rest) for *_, rest in found) > 10
    # Good ones are in between.
    assert sum(len(one) > 20 for one in frames) > 100


def test_a_raw_stream_may_leave_out_apis() -> None:
    streams = [raw_frames(seed, WITHOUT) for seed in SEEDS]
    good = [one for stream in streams for one in frames_of(stream)[0] if len(one) > 13]
    assert good
    assert not WITHOUT & {int.from_bytes(one[:2]) for one in good}


CA = trustme.CA()


@pytest.fixture
def ca(tmp_path: Path) -> str:
    return str(truststore(tmp_path / "ca.pem", CA))


def server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(context)
    return context


def test_raw_records_bring_all_data(ca: str) -> None:
    """OpenSSL itself reads them, with new keys and empty ones in between."""
    stream = b"".join(api_versions(number) for number in range(50))
    sizes = set()

    def behave(connection: socket.socket) -> None:
        while len(got) < len(stream):
            part = connection.recv(1 << 16)
            sizes.add(len(part))
            got.extend(part)

    for seed in range(0, 16, 2):
        got = bytearray()
        with broker(behave, server()) as address:
            line = RawTlsLine(address, ca, seed, wrong=False)
            carry_out(Talk(line, one_stream(stream), Known(), Way.AT_ONCE, random.Random(1)))
        assert bytes(got) == stream
    assert sizes >= {1, 2, 7, 100, len(stream)}


def test_wrong_records_are_among_those_of_a_spoilt_line(ca: str) -> None:
    """A server that takes nothing wrong ends the connection of most seeds."""
    stream = bytes(4000)
    broken = 0

    def behave(connection: socket.socket) -> None:
        nonlocal broken
        got = 0
        try:
            while got < len(stream) and (part := connection.recv(1 << 16)):
                got += len(part)
        except OSError:
            broken += 1
        else:
            broken += got < len(stream)

    for seed in range(1, 21, 2):
        with broker(behave, server()) as address:
            line = RawTlsLine(address, ca, seed, wrong=True)
            assert line.spoilt
            carry_out(Talk(line, one_stream(stream), Known(), Way.AT_ONCE, random.Random(1)))
    assert broken >= 5
