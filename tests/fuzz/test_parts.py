"""What the campaign is made of: it must notice what is wrong."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
from pathlib import Path

import pytest

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest
from tests.fuzz import corpus
from tests.fuzz.lines import Line, Wrong
from tests.fuzz.mutation import FRESH, Mutator, frames_of
from tests.fuzz.scripted_broker import broker, carry_out
from tests.fuzz.seeds import MEMBER, TOPIC_IDS, TOPICS, Known, Seeds
from tests.fuzz.talk import Talk, Way, one_stream
from tests.support.raw import api_versions, frame, request

METADATA, PRODUCE, JOIN_GROUP, SYNC_GROUP = 3, 0, 11, 14
UNLIKE_ITS_NEIGHBOUR = (28, 6)
"""TxnOffsetCommit v6 has ids instead of names. kio does not know it, so the seeds do not either."""


def reply(correlation: int) -> bytes:
    return struct.pack(">iih", 6, correlation, 0)


def test_seeds_are_valid_requests_of_every_version() -> None:
    """groupd may refuse the values of some requests, but not those of all of a version."""
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
    fresh = [stream.frames[one] for stream in streams for one in stream.fresh]
    # A frame in a stream has another correlation id than in the pool, so only the rest is compared.
    known = {one[8:] for one in pool}
    assert 50 < len(fresh) < 50 * FRESH
    assert sum(one[8:] not in known for one in fresh) > 0.9 * len(fresh)


def test_known_frames_come_first_and_may_leave_out_apis() -> None:
    pool = Seeds(random.Random(3)).every_version(1)
    mutator = Mutator(random.Random(4), pool)
    for _ in range(50):
        stream = mutator.stream(20, frozenset({METADATA}), fresh=0)
        assert not stream.fresh
        found, ends, rest = frames_of(stream.data)
        assert (ends, rest) == (False, b"")
        assert METADATA not in {int.from_bytes(one[:2]) for one in found}
    orders = [list(mutator.stream(20).frames.values()) for _ in range(50)]
    known = {one[8:] for one in pool}
    assert all(one[8:] in known for frames in orders for one in frames[:20])


def test_what_has_ended_a_connection_is_sent_no_more() -> None:
    ender, *others = (frame(request(METADATA, 1, 7, bytes([number])))[4:] for number in range(5))
    mutator = Mutator(random.Random(4), [ender, *others])
    mutator.survived(ender)
    mutator.ended(ender)
    sent = {one[8:] for _ in range(50) for one in mutator.stream(20, fresh=0).frames.values()}
    # A survivor without others of its kind stays.
    assert {one[8:] for one in others} <= sent
    for other in others:
        mutator.survived(other)
    mutator.ended(ender)
    sent = {one[8:] for _ in range(50) for one in mutator.stream(20, fresh=0).frames.values()}
    assert sent == {one[8:] for one in others}


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


def judged(stream: bytes, answer: bytes, *, sound: bool = True) -> Talk:
    """The talk with a broker that reads, answers this much and closes. Raises Wrong."""

    def behave(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(answer)

    with broker(behave) as address:
        script = one_stream(stream, sound=sound)
        return carry_out(Talk(Line(address), script, Known(), Way.AT_ONCE, random.Random(1)))


def test_replies_and_the_end_are_judged() -> None:
    stream = api_versions(7) + frame(request(METADATA, 1, 8)) + api_versions(9)
    whole = judged(stream, reply(7) + reply(8) + reply(9))
    assert whole.keys == [18, METADATA, 18]
    assert len(whole.answered) == 3
    ended = judged(stream, reply(7))
    # The second one has ended it; what is behind it was not looked at.
    assert ended.keys == [18, METADATA]
    assert len(ended.answered) == 1


def produce(correlation: int, acks: int) -> bytes:
    """Produce v3 of nothing."""
    return request(PRODUCE, 3, correlation, struct.pack(">hhii", -1, acks, 0, 0))


def test_a_produce_with_acks_0_has_no_reply() -> None:
    stream = frame(produce(7, 0)) + api_versions(8)
    assert judged(stream, reply(8)).keys == [PRODUCE, 18]
    # Neither if the next request has the same id, nor where replies are only counted.
    same = judged(frame(produce(7, 0)) + api_versions(7), reply(7))
    counted = judged(stream, reply(8), sound=False)
    for talk in (same, counted):
        assert talk.keys == [PRODUCE, 18]
        assert not talk.expected
    with pytest.raises(Wrong):
        judged(frame(produce(7, 1)) + api_versions(8), reply(8))


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


SILENT, ANSWERED = produce(1, 0), produce(2, 1)
SYNC, INFO = request(SYNC_GROUP, 0, 3), request(METADATA, 0, 4)


@pytest.mark.parametrize(
    ("frames", "may"),
    [
        ((SYNC, INFO), True),
        ((SILENT, SYNC, INFO), True),
        ((SILENT,), True),
        ((ANSWERED, SYNC), False),
        ((INFO, SYNC), False),
        ((SILENT, INFO, SYNC), False),
    ],
)
def test_who_may_wait(frames: tuple[bytes, ...], may: bool) -> None:
    """A Produce with acks=0 has no reply: the next request is the one that is waited for."""
    stream = b"".join(map(frame, frames))
    with broker(lambda connection: None) as address:
        talk = Talk(Line(address), one_stream(stream), Known(), Way.AT_ONCE, random.Random(1))
        select.select([], [talk.line.socket], [], 10)
        assert not talk.write()
        assert talk.waits_by_right is may
        talk.close()
