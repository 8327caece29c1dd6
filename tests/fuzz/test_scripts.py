"""What the campaign sends over TLS and SASL: it must notice what is wrong there."""

from __future__ import annotations

import random
import select
import socket
import ssl
import struct
from collections import Counter
from pathlib import Path

import pytest
import trustme

from tests.fuzz.lines import Line, Spoil, TlsLine, Wrong
from tests.fuzz.listeners import contexts
from tests.fuzz.logins import WITHOUT, Logins, describe_acls
from tests.fuzz.mutation import Mutator, frames_of
from tests.fuzz.scripted_broker import broker, carry_out
from tests.fuzz.seeds import Known, Seeds
from tests.fuzz.talk import Phase, Probe, Script, Talk, Way, one_stream
from tests.support.certificates import truststore
from tests.support.raw import api_versions, frame
from tests.support.sasl_frames import SASL_HANDSHAKE

CA = trustme.CA()
PROBE = b"\x80\x00\x00\x07"


def reply(correlation: int, error: int = 0) -> bytes:
    """A reply whose error is where DescribeAcls has it."""
    return struct.pack(">iIih", 10, correlation, 0, error)


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def judged(line: Line, script: Script, way: Way = Way.AT_ONCE) -> Talk:
    """The talk, once it is done. Raises Wrong."""
    return carry_out(Talk(line, script, Known(), way, random.Random(1)))


def test_a_phase_is_made_of_the_reply_before_it() -> None:
    first, second = api_versions(7), api_versions(8)

    def behave(connection: socket.socket) -> None:
        assert exactly(connection, len(first)) == first
        connection.sendall(reply(7))
        assert exactly(connection, len(second)) == second
        connection.sendall(reply(8))

    seen: list[bytes] = []

    def make(last: bytes) -> bytes:
        seen.append(last)
        return second

    with broker(behave) as address:
        talk = judged(Line(address), Script((Phase(lambda _: first), Phase(make, waits=True))))
    assert seen == [reply(7)[4:]]
    assert len(talk.answered) == 2


@pytest.mark.parametrize("way", [Way.IN_TURN, Way.IN_PIECES, Way.BYTE_BY_BYTE])
def test_phases_one_after_the_other_however_they_are_sent(way: Way) -> None:
    def behave(connection: socket.socket) -> None:
        for number in range(9):
            assert exactly(connection, len(api_versions(0))) == api_versions(number)
            connection.sendall(reply(number))

    parts = [b"".join(map(api_versions, range(at, at + 3))) for at in (0, 3, 6)]
    phases = tuple(Phase(lambda _, part=part: part, waits=True) for part in parts)
    with broker(behave) as address:
        assert len(judged(Line(address), Script(phases), way).answered) == 9


@pytest.mark.parametrize(
    ("error", "allowed", "wrong"),
    [(31, {31}, False), (0, {31}, True), (0, set(), True), (31, set(), True)],
)
def test_a_probe_tells_for_whom_one_is_taken(error: int, allowed: set[int], wrong: bool) -> None:
    stream = frame(describe_acls(PROBE))
    script = Script((Phase(lambda _: stream),), True, Probe(PROBE, frozenset(allowed)))

    def behave(connection: socket.socket) -> None:
        exactly(connection, len(stream))
        connection.sendall(reply(0x80000007, error))

    with broker(behave) as address:
        if wrong:
            with pytest.raises(Wrong, match="another user"):
                judged(Line(address), script)
        else:
            assert judged(Line(address), script).answered == [PROBE]


def test_a_rest_is_kept() -> None:
    with broker(lambda connection: None) as address:
        line = Line(address)
        script = Script((Phase(lambda _: api_versions(1), rest_s=3600.0),))
        talk = Talk(line, script, Known(), Way.AT_ONCE, random.Random(1))
        select.select([], [line.socket], [], 10)
        assert not talk.write()
        assert talk.rests
        assert not talk.sent
        talk.close()


def test_logins_of_all_kinds() -> None:
    chance = random.Random(5)
    mutator = Mutator(chance, Seeds(random.Random(3)).every_version(1))
    logins = Logins(chance, mutator, {"alice": "token-a", "bob": "token-b"}, 20)
    made = [logins.script(may_rest=number % 2 == 0) for number in range(600)]
    kinds = Counter(one.kind for one in made)
    assert len(kinds) == 15, kinds
    for one in made:
        data = b"".join(phase.make(b"") for phase in one.script.phases)
        probe = one.script.probe
        assert probe is not None
        assert data.endswith(frame(describe_acls(probe.correlation)))
        # Only a login that ends wrongly, or the one of a user with rights, allows something else.
        assert (0 in probe.allowed) <= (b"alice" in data or b"token-a" in data), one.kind
        assert all(probe.correlation not in stream.frames for stream in one.streams)
    rested = [one for one in made if any(phase.rest_s for phase in one.script.phases)]
    assert {one.kind for one in rested} == {
        "login: again after a rest",
        "login: too late",
        "login: too late, but again",
    }


def test_streams_behind_a_login_begin_no_other() -> None:
    mutator = Mutator(random.Random(4), Seeds(random.Random(3)).every_version(1))
    found = [
        int.from_bytes(one[:2])
        for _ in range(50)
        for one in frames_of(mutator.stream(40, WITHOUT, fresh=0).data)[0]
    ]
    assert SASL_HANDSHAKE not in found
    assert len(found) > 1000


# TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    CA.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def clients(tmp_path: Path) -> list[ssl.SSLContext]:
    return contexts(str(truststore(tmp_path / "ca.pem", CA)))


@pytest.mark.parametrize("most", [1, 1 << 30])
def test_a_talk_over_tls(server: ssl.SSLContext, clients: list[ssl.SSLContext], most: int) -> None:
    stream = api_versions(7) * 1000

    def behave(connection: socket.socket) -> None:
        assert exactly(connection, len(stream)) == stream
        connection.sendall(reply(7) * 1000)

    for context in clients:
        with broker(behave, server) as address:
            talk = judged(TlsLine(address, context, most=most), one_stream(stream))
        assert len(talk.answered) == 1000


def test_a_broken_record_of_the_broker_is_wrong(
    server: ssl.SSLContext, clients: list[ssl.SSLContext]
) -> None:
    def behave(connection: socket.socket) -> None:
        exactly(connection, 10)
        # These bytes do not go through TLS.
        with socket.socket(fileno=connection.detach()) as below:
            below.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))

    with broker(behave, server) as address, pytest.raises(Wrong, match="TLS"):
        judged(TlsLine(address, clients[0]), one_stream(api_versions(7)))


def test_one_flight_is_spoilt() -> None:
    flights = [b"\x16\x03\x01\x00\x40" + bytes(64), b"\x14\x03\x03\x00\x01\x01" * 5, b"\x17" * 90]
    changed: Counter[int] = Counter()
    for seed in range(400):
        chance = random.Random(seed)
        mutator = Mutator(chance, [bytes(50)])
        spoil = Spoil(chance, mutator.change)
        made = [spoil(flight) for flight in flights]
        differ = [number for number in range(3) if made[number] != flights[number]]
        # A flight that is cut is the last one.
        cut = bool(differ) and made[differ[0]] == flights[differ[0]][: len(made[differ[0]])]
        assert len(differ) <= 1 or (cut and not any(made[differ[0] + 1 :]))
        changed.update(differ[:1])
    assert min(changed[number] for number in range(3)) > 50


def test_a_spoilt_line_may_be_closed_by_its_broker(
    server: ssl.SSLContext, clients: list[ssl.SSLContext]
) -> None:
    def unknown_type(data: bytearray) -> None:
        data[0] = 99

    def behave(connection: socket.socket) -> None:
        raise AssertionError("no handshake")

    with broker(behave, server) as address:
        line = TlsLine(address, clients[0], Spoil(random.Random(18), unknown_type))
        talk = judged(line, one_stream(api_versions(7)))
    assert talk.closed
    # No frame has come so far.
    assert talk.keys == []
    assert talk.waits_by_right
