"""Frames and streams of frames that are almost right.

A *frame* is a request without its length, a *stream* what one connection sends: frames with their
lengths, and whatever else.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tests.support.raw import frame

LARGEST = 104_857_600
_LENGTH = struct.Struct(">i")
_HEADER = 8
_VALUES: tuple[bytes, ...] = tuple(
    value.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for value in (0, 1, -1, -2, 127, -128, 1 << (8 * size - 2), (1 << (8 * size - 1)) - 1)
    if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1)
)
_ROWS = (1, 1, 1, 2, 4, 8, 16)
_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x00",
    b"\xff" * 9 + b"\x7f",
)
_LENGTHS = (2**31 - 1, LARGEST + 1, LARGEST, -1, -(2**31), 0, 1, 7, 0x16030100)

FRESH = 6
"""At most so many frames of a stream were never sent before. They come last: most of them end the
connection, and what lies behind is not looked at."""
SURVIVORS = 200
"""The most survivors of each API and version."""
_LEAST = 3
"""The pool keeps at least this many frames of each API and version, even if all of them end the
connection."""

Change = Callable[[bytearray], None]


class Stream(NamedTuple):
    """`frames`: without their length, as they were made, by correlation id; `fresh`: the ids of
    those that were never sent before."""

    data: bytes
    frames: dict[bytes, bytes]
    fresh: set[bytes]

    def whole(self, _: bytes) -> bytes:
        """The data, in the shape that `Phase.make` wants."""
        return self.data


class Mutator:
    """Makes streams. `pool`: valid frames to begin with. Changed frames that were answered join
    them; those that have ended a connection are no longer sent as they are, only changed."""

    def __init__(self, chance: random.Random, pool: Sequence[bytes]) -> None:
        self._chance = chance
        self.pool = list(pool)
        self._alike: dict[bytes, list[bytes]] = {}
        """The frames of the pool, by API and version."""
        for one in pool:
            self._alike.setdefault(one[:4], []).append(one)
        self._answered = {like: list(alike) for like, alike in self._alike.items()}
        """The frames of the pool that have ended no connection, by API and version."""
        self._survivors: dict[bytes, list[bytes]] = {}
        """Changed frames that were answered, by API and version: else the offspring of the first
        one would soon be all there is."""
        self._changes: tuple[Change, ...] = (
            *[self._flip, self._value, self._value, self._byte] * 4,
            self._insert,
            self._cut,
            self._varint,
            self._shorten,
            self._lengthen,
            self._repeat,
            self._splice,
            self._version,
        )

    def survived(self, frame: bytes) -> None:
        """The frame was answered. If there are many like it, it takes the place of any one of
        them."""
        alike = self._survivors.setdefault(frame[:4], [])
        if len(alike) < SURVIVORS:
            alike.append(frame)
        else:
            alike[self._chance.randrange(SURVIVORS)] = frame

    def ended(self, frame: bytes) -> None:
        """The frame has ended its connection."""
        for known in (self._answered, self._survivors):
            alike = known.get(frame[:4], [])
            left = [one for one in alike if one[_HEADER:] != frame[_HEADER:]]
            if len(left) >= _LEAST:
                known[frame[:4]] = left

    def known(self, like: bytes) -> bytes:
        """A frame of an API and version that was answered before, as far as one knows."""
        known = self._survivors if self._chance.random() < 0.7 else self._answered
        return self._chance.choice(known.get(like) or self._answered.get(like) or self._alike[like])

    def fresh(self, like: bytes) -> bytes:
        """A changed frame of an API and version."""
        known = self._survivors if self._chance.random() < 0.7 else self._alike
        made = bytearray(self._chance.choice(known.get(like) or self._alike[like]))
        self.change(made)
        while self._chance.random() < 0.4:
            self.change(made)
        return bytes(made)

    def change(self, made: bytearray) -> None:
        """Makes one change in place."""
        self._chance.choice(self._changes)(made)

    def stream(
        self, frames: int, without: AbstractSet[int] = frozenset(), fresh: int = FRESH
    ) -> Stream:
        """A stream of that many frames with their own correlation ids, some of one API in a row,
        since a broker may handle those together; then some that are new. Now and then it has the
        same frame again, a wrong length, or an end in the middle of a frame. None is of the APIs
        `without`."""
        chance = self._chance
        made, new = [], set()
        like, row = b"", 0
        for _ in range(frames):
            if not row:
                like, row = self._api(without), chance.choice(_ROWS)
            row -= 1
            made.append(self.known(like))
        for _ in range(chance.randint(1, fresh) if fresh else 0):
            new.add(len(made))
            made.append(self.fresh(self._api(without)))
        first = chance.getrandbits(31)
        stream = Stream(b"", {}, set())
        data = []
        for number, one in enumerate(made):
            if len(one) >= _HEADER:
                correlation = _LENGTH.pack((first + number) & 0x7FFFFFFF)
                one = one[:4] + correlation + one[_HEADER:]
                stream.frames[correlation] = one
                if number in new:
                    stream.fresh.add(correlation)
            data.append(frame(one))
            if number not in new and chance.random() < 0.03:
                data += [data[chance.randrange(len(data))]] * chance.randint(1, 5)
        if fresh:
            self._disturb(data)
        return stream._replace(data=b"".join(data))

    def _api(self, without: AbstractSet[int]) -> bytes:
        """The API and version of any frame."""
        while True:
            like = self._chance.choice(self.pool)[:4]
            if int.from_bytes(like[:2]) not in without:
                return like

    def _disturb(self, made: list[bytes]) -> None:
        """Sometimes changes the order, a length, or the end."""
        chance = self._chance
        dice = chance.random()
        if dice < 0.02:
            chance.shuffle(made)
        elif dice < 0.05:
            at = chance.randrange(len(made))
            made[at] = self._wrong_length(made[at])
        elif dice < 0.08:
            made[-1] = made[-1][: chance.randrange(1, len(made[-1]))]

    def _wrong_length(self, one: bytes) -> bytes:
        chance = self._chance
        if chance.random() < 0.5:
            length = chance.choice(_LENGTHS)
        else:
            length = len(one) - 4 + chance.choice((-2, -1, 1, 2, 100))
        return _LENGTH.pack(length) + one[4:]

    # Each changes a frame in place; a frame may be empty ------------------------------------

    def _at(self, made: bytearray) -> int:
        """A place to change, mostly behind the header, since little is to be found in it."""
        least = _HEADER if len(made) > _HEADER and self._chance.random() < 0.97 else 0
        return self._chance.randrange(least, len(made)) if made else 0

    def _flip(self, made: bytearray) -> None:
        if made:
            made[self._at(made)] ^= 1 << self._chance.randrange(8)

    def _byte(self, made: bytearray) -> None:
        if made:
            made[self._at(made)] = self._chance.randrange(256)

    def _value(self, made: bytearray) -> None:
        value = self._chance.choice(_VALUES)
        at = self._at(made)
        made[at : at + len(value)] = value

    def _varint(self, made: bytearray) -> None:
        at = self._at(made)
        made[at : at + 1] = self._chance.choice(_VARINTS)

    def _insert(self, made: bytearray) -> None:
        at = self._at(made)
        made[at:at] = self._chance.randbytes(self._chance.randint(1, 8))

    def _cut(self, made: bytearray) -> None:
        at = self._at(made)
        del made[at : at + self._chance.randint(1, 8)]

    def _shorten(self, made: bytearray) -> None:
        del made[self._at(made) :]

    def _lengthen(self, made: bytearray) -> None:
        made += self._chance.randbytes(self._chance.choice((1, 4, 100)))

    def _repeat(self, made: bytearray) -> None:
        at = self._at(made)
        made[at:at] = made[at : at + self._chance.randint(1, 40)] * self._chance.choice((1, 2, 20))

    def _splice(self, made: bytearray) -> None:
        """Puts the rest of another frame there, mostly of the same API."""
        other = self._chance.choice(self.pool)
        for _ in range(20):
            if other[:2] == made[:2]:
                break
            other = self._chance.choice(self.pool)
        at = self._at(made)
        made[at:] = other[min(at, len(other)) :]

    def _version(self, made: bytearray) -> None:
        """Claims another version, or another API."""
        if len(made) >= 4:
            at = self._chance.choice((3, 3, 3, 1))
            made[at] = (made[at] + self._chance.choice((-1, 1, 1, 7))) & 0xFF


def frames_of(stream: bytes, largest: int = LARGEST) -> tuple[list[bytes], bool, bytes]:
    """What a broker finds in a stream: its whole frames, whether a length behind them ends the
    connection, and the rest that is no whole frame."""
    found = []
    at, end = 0, len(stream)
    while at + 4 <= end:
        (length,) = _LENGTH.unpack_from(stream, at)
        if not 0 <= length <= largest:
            return found, True, b""
        if at + 4 + length > end:
            break
        found.append(stream[at + 4 : at + 4 + length])
        at += 4 + length
    return found, False, stream[at:]
