"""What the campaign is made of: it must notice what is wrong."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest
from tests.fuzz import corpus
from tests.fuzz.logins import login
from tests.fuzz.mutation import Mutator, frames_of
from tests.fuzz.seeds import MEMBER, TOPIC_IDS, TOPICS, Known, Seeds
from tests.fuzz.talk import Talk, Way, Wrong
from tests.support.raw import api_versions, frame, request
from tests.support.sasl_client import PLAIN_ALICE

METADATA, PRODUCE, JOIN_GROUP, SYNC_GROUP = 3, 0, 11, 14
UNLIKE_ITS_NEIGHBOUR = (28, 6)
"""TxnOffsetCommit v6 has ids instead of names. kio has no such version, so nor have the seeds."""


def reply(correlation: int) -> bytes:
    return struct.pack(">iih", 6, correlation, 0)


def test_seeds_are_valid_requests_of_every_version() -> None:
    """Some values make no sense to groupd, but not those of all requests."""
    made = Seeds(random.Random(3)).every_version(8)
    versions = {UNLIKE_ITS_NEIGHBOUR}
    for one in made:
        header = parse_request_header(one, API_BY_KEY)
        with contextlib.suppress(MalformedRequest):
            API_BY_KEY[header.api_key].decode(one, header.body_offset, header.api_version)
            versions.add((header.api_key, header.api_version))
    assert versions == {
        (api.key, version)
        for api in API_BY_KEY.values()
        for version in range(api.min_version, api.max_version + 1)
    }
    assert made == Seeds(random.Random(3)).every_version(8)


def test_changed_frames_are_new_ones() -> None:
    pool = Seeds(random.Random(3)).every_version(1)
    mutator = Mutator(random.Random(4), pool)
    streams = [mutator.stream(20) for _ in range(50)]
    again = Mutator(random.Random(4), pool)
    assert [again.stream(20) for _ in range(50)] == streams
    fresh = [one for _, frames in streams for _, one in frames]
    # Behind the correlation id.
    known = {one[8:] for one in pool}
    assert 20 < len(fresh) < 100
    assert sum(one[8:] not in known for one in fresh) > 0.9 * len(fresh)


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (frame(b"one") + frame(b"two"), ([b"one", b"two"], False, b"")),
        (frame(b"one") + frame(b"two")[:-1], ([b"one"], False, frame(b"two")[:-1])),
        (frame(b"one") + b"\x00\x00", ([b"one"], False, b"\x00\x00")),
        (frame(b"one") + b"\xff\xff\xff\xff" + frame(b"two"), ([b"one"], True, b"")),
        (struct.pack(">i", 104_857_601), ([], True, b"")),
    ],
)
def test_frames_of_a_stream(stream: bytes, found: tuple[list[bytes], bool, bytes]) -> None:
    assert frames_of(stream) == found


def test_streams_in_a_file(tmp_path: Path) -> None:
    streams = [b"", b"\x00" * 3, bytes(range(256))]
    corpus.write(tmp_path / "some.fuzz", streams)
    assert corpus.read(tmp_path / "some.fuzz") == streams


def test_the_kept_streams_are_few() -> None:
    assert sum(path.stat().st_size for path in corpus.KEPT.iterdir()) < 1_000_000
    assert len(corpus.kept()) > 100


def test_marks_become_what_the_broker_has_told() -> None:
    known = Known({TOPICS[0]: b"A" * 16})
    member = "fuzz-01234567-89ab-cdef-0123-456789abcdef"
    data = bytearray(b"...." + b"\x00\x29" + member.encode())
    known.learn(JOIN_GROUP, data, 0, len(data))
    assert known.put_in(TOPIC_IDS[0] + TOPIC_IDS[1]) == b"A" * 16 + TOPIC_IDS[1]
    assert known.put_in(MEMBER.encode()) == member.encode()


# A broker that does as it likes ---------------------------------------------------------------


@contextmanager
def broker(behave: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """One connection, then it is gone."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            thread.join(10)


def judged(stream: bytes, answer: bytes, *, sound: bool = True) -> Talk:
    """The talk with a broker that reads, answers this much and closes. Raises Wrong."""

    def behave(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(answer)

    with broker(behave) as address:
        talk = Talk(address, stream, Known(), Way.AT_ONCE, random.Random(1), sound=sound)
        try:
            while not talk.done:
                readable, writable, _ = select.select(
                    [talk.socket], [talk.socket] if talk.sending else [], [], 10
                )
                assert readable or writable
                if writable:
                    talk.write()
                if readable:
                    talk.read()
        finally:
            talk.close()
    return talk


def test_replies_and_the_end_are_judged() -> None:
    stream = api_versions(7) + frame(request(METADATA, 1, 8)) + api_versions(9)
    whole = judged(stream, reply(7) + reply(8) + reply(9))
    assert whole.keys == [18, METADATA, 18]
    assert len(whole.answered) == 3
    ended = judged(stream, reply(7))
    # The second one has ended it; what is behind it was not looked at.
    assert ended.keys == [18, METADATA]
    assert len(ended.answered) == 1


def test_a_produce_may_be_without_a_reply() -> None:
    stream = frame(request(PRODUCE, 9, 7)) + api_versions(8)
    assert judged(stream, reply(8)).keys == [PRODUCE, 18]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(reply(8) + reply(7), id="order"),
        pytest.param(reply(99), id="nobody asked"),
        pytest.param(reply(7) + reply(8) + reply(8), id="twice"),
        pytest.param(struct.pack(">i", 0), id="empty"),
        pytest.param(struct.pack(">i", -5), id="negative"),
    ],
)
def test_wrong_answers_are_noticed(answer: bytes) -> None:
    # The rest of a frame keeps the talk open.
    stream = api_versions(7) + api_versions(8)
    with pytest.raises(Wrong):
        judged(stream + (frame(b"123") if len(answer) > 20 else b""), answer)


def test_the_replies_of_an_old_login_have_no_correlation_id() -> None:
    stream = api_versions(7) + frame(b"a token") + api_versions(8)
    answer = reply(7) + struct.pack(">i", 0) + struct.pack(">i2s", 2, b"ok")
    assert len(judged(stream, answer, sound=False).answered) == 3
    with pytest.raises(Wrong):
        judged(stream, answer)


def test_logins_of_all_kinds() -> None:
    chance = random.Random(5)
    mutator = Mutator(chance, Seeds(random.Random(3)).every_version(1))
    made = [login(chance, mutator) for _ in range(300)]
    sound = [one for one in made if one.sound]
    assert 100 < len(sound) < 200
    assert all(frames_of(one.data)[0][-1].endswith(PLAIN_ALICE) for one in sound)
    assert b"" in [one.data for one in made]
    assert any(b"SCRAM-SHA-512" in one.data for one in made)


@pytest.mark.parametrize(
    ("keys", "may"),
    [
        ((SYNC_GROUP, METADATA), True),
        ((PRODUCE, SYNC_GROUP, METADATA), True),
        ((PRODUCE,), True),
        ((METADATA, SYNC_GROUP), False),
        ((PRODUCE, METADATA, SYNC_GROUP), False),
    ],
)
def test_who_may_wait(keys: tuple[int, ...], may: bool) -> None:
    """A Produce in front may be one without a reply: then the next one is waited for."""
    stream = b"".join(frame(request(key, 0, number)) for number, key in enumerate(keys))
    with broker(lambda connection: None) as address:
        talk = Talk(address, stream, Known(), Way.AT_ONCE, random.Random(1))
        assert talk.waits_by_right is may
        talk.close()
