"""The frame splitter: any cut of a stream gives the same frames."""

from __future__ import annotations

import time
import tracemalloc
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.wire.framing import (
    LARGE,
    FrameError,
    FrameSplitter,
    FrameTooLarge,
    MalformedFrame,
)
from tests.support.examples import examples


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def cut(splitter: FrameSplitter, data: bytes) -> list[bytes]:
    """The frames that `data` completes."""
    splitter.feed(data)
    return list(iter(splitter.next, None))


def test_whole_frame_comes_out_without_its_length() -> None:
    assert cut(FrameSplitter(100), framed(b"hello")) == [b"hello"]


def test_several_frames_and_the_start_of_one_in_a_chunk() -> None:
    splitter = FrameSplitter(100)
    stream = framed(b"one", b"", b"three", b"four")
    assert cut(splitter, stream[:-2]) == [b"one", b"", b"three"]
    assert cut(splitter, stream[-2:]) == [b"four"]


def test_byte_by_byte() -> None:
    splitter = FrameSplitter(100)
    stream = framed(b"one", b"", b"three")
    arrived = [(at, cut(splitter, stream[at : at + 1])) for at in range(len(stream))]
    assert [(at, frames) for at, frames in arrived if frames] == [
        (6, [b"one"]),
        (10, [b""]),
        (19, [b"three"]),
    ]


@examples(25, derandomize=True, database=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_any_cut_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = framed(*frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = FrameSplitter(100)
    got: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += cut(splitter, stream[start:end])
    assert got == frames
    assert all(type(frame) is bytes for frame in got)


def test_frame_at_the_limit_passes_and_one_above_is_refused() -> None:
    splitter = FrameSplitter(5)
    assert cut(splitter, framed(b"12345")) == [b"12345"]
    with pytest.raises(FrameTooLarge):
        cut(splitter, framed(b"123456"))


def test_too_large_a_length_is_refused_before_the_frame_arrives() -> None:
    splitter = FrameSplitter(1000)
    assert cut(splitter, b"\x7f\xff\xff") == []
    with pytest.raises(FrameTooLarge):
        cut(splitter, b"\xff")


@pytest.mark.parametrize("length", [-1, -(2**31)])
def test_negative_length_is_malformed(length: int) -> None:
    with pytest.raises(MalformedFrame):
        cut(FrameSplitter(1000), length.to_bytes(4, "big", signed=True))


def test_whole_frames_before_a_bad_one_are_not_lost() -> None:
    splitter = FrameSplitter(10)
    assert cut(splitter, framed(b"first")[:6]) == []
    splitter.feed(framed(b"first")[6:] + framed(b"second") + pack(">i", 11))
    assert (splitter.next(), splitter.next()) == (b"first", b"second")
    with pytest.raises(FrameTooLarge):
        splitter.next()


def test_what_has_come_is_not_looked_at_before_it_is_taken() -> None:
    splitter = FrameSplitter(10)
    splitter.feed(framed(b"good") + pack(">i", -1))
    assert splitter.next() == b"good"
    assert splitter.rest
    splitter.feed(bytes(1 << 20))
    with pytest.raises(MalformedFrame):
        splitter.next()


@pytest.mark.parametrize("size", [0, 10])
def test_many_tiny_frames_are_cut_in_linear_time(size: int) -> None:
    """Copying what is left at each of them would move more than 20 GiB."""
    splitter = FrameSplitter(10)
    stream = framed(bytes(size)) * 100_000
    splitter.feed(stream[:2])
    assert splitter.next() is None
    splitter.feed(stream[2:])
    started = time.process_time()
    assert sum(1 for _ in iter(splitter.next, None)) == 100_000
    assert time.process_time() - started < 2


def test_a_refused_stream_stays_refused() -> None:
    splitter = FrameSplitter(1000)
    cut(splitter, b"\xff")
    with pytest.raises(FrameError):
        cut(splitter, b"\xff\xff\xff")
    with pytest.raises(FrameError):
        cut(splitter, framed(b"good"))


def test_an_announced_length_reserves_nothing() -> None:
    tracemalloc.start()
    try:
        splitters = [FrameSplitter(2**31 - 1) for _ in range(10)]
        for splitter in splitters:
            cut(splitter, b"\x7f\xff\xff\xff and a little")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_large_frame_in_small_pieces_costs_linear_time() -> None:
    """Quadratic copying of 16 MiB in 4 KiB pieces would move 32 GiB."""
    payload = bytes(16 * 1024 * 1024)
    stream = framed(payload)
    splitter = FrameSplitter(len(payload))
    frames: list[bytes] = []
    started = time.process_time()
    for at in range(0, len(stream), 4096):
        frames += cut(splitter, stream[at : at + 4096])
    assert time.process_time() - started < 2
    assert frames == [payload]


@pytest.mark.parametrize("step", [1000, 70_000, 256_000])
def test_large_frames_between_small_ones(step: int) -> None:
    frames = [b"a", bytes(LARGE - 1), bytes(LARGE), b"b", bytes(3 * LARGE + 7), b""]
    stream = framed(*frames)
    splitter = FrameSplitter(4 * LARGE)
    found = []
    for at in range(0, len(stream), step):
        found += cut(splitter, stream[at : at + step])
    assert found == frames
    assert (splitter.announced, splitter.rest) == (0, b"")


def test_a_large_frame_is_announced_until_it_is_taken() -> None:
    splitter = FrameSplitter(4 * LARGE)
    stream = framed(bytes(LARGE), b"x")
    assert cut(splitter, stream[:100]) == []
    assert (splitter.announced, splitter.missing) == (LARGE, LARGE - 96)
    splitter.feed(stream[100:-1])
    assert (splitter.announced, splitter.missing) == (LARGE, 0)
    splitter.feed(stream[-1:])
    assert splitter.next() == bytes(LARGE)
    assert (splitter.announced, splitter.missing) == (0, 0)
    assert splitter.next() == b"x"


def test_what_is_forgotten_does_not_come_back() -> None:
    splitter = FrameSplitter(4 * LARGE)
    for begun in (framed(b"one") + b"\0", framed(b"one", bytes(LARGE))[:-1]):
        splitter.feed(begun)
        assert splitter.next() == b"one"
        assert splitter.next() is None
        splitter.clear()
        assert cut(splitter, framed(b"two")) == [b"two"]


def test_a_large_frame_is_there_once() -> None:
    splitter = FrameSplitter(64 << 20)
    stream = framed(bytes(32 << 20))
    cut(splitter, stream[:1000])
    found = []
    tracemalloc.start()
    try:
        for at in range(1000, len(stream), 1 << 18):
            found += cut(splitter, stream[at : at + (1 << 18)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (frame,) = found
    assert len(frame) == 32 << 20
    assert peak < 1.4 * len(frame)
