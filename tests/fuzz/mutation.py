"""Frames and streams of frames that are almost right.

A *frame* is a request without its length, a *stream* what one connection sends: frames with their
lengths, and whatever else.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

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

NEW = 0.05
"""Part of the frames that were never sent before."""
SURVIVORS = 200
"""Of each API and version."""

Change = Callable[[bytearray], None]


class Mutator:
    """`pool`: valid frames to begin with. Changed frames that were answered come beside them: most
    frames of a stream are such, since a connection ends with the first one that makes no sense."""

    def __init__(self, chance: random.Random, pool: Sequence[bytes]) -> None:
        self._chance = chance
        self.pool = list(pool)
        self._alike: dict[bytes, list[bytes]] = {}
        """Of the pool, by API and version."""
        for one in pool:
            self._alike.setdefault(one[:4], []).append(one)
        self._survivors: dict[bytes, list[bytes]] = {}
        """By API and version: else the offspring of the first one would soon be all there is."""
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
        """It was answered; takes the place of any other one if there are many."""
        alike = self._survivors.setdefault(frame[:4], [])
        if len(alike) < SURVIVORS:
            alike.append(frame)
        else:
            alike[self._chance.randrange(SURVIVORS)] = frame

    def frame(self, like: bytes) -> tuple[bytes, bool]:
        """A valid or changed one of an API and version, and whether it is new."""
        chance = self._chance.random
        known = self._survivors if chance() < 0.7 else self._alike
        one = self._chance.choice(known.get(like) or self._alike[like])
        if chance() > NEW:
            return one, False
        made = bytearray(one)
        self.change(made)
        while chance() < 0.4:
            self.change(made)
        return bytes(made), True

    def change(self, made: bytearray) -> None:
        """One change in place."""
        self._chance.choice(self._changes)(made)

    def stream(self, frames: int) -> tuple[bytes, list[tuple[int, bytes]]]:
        """That many frames with their own correlation ids, some of one API in a row, since a broker
        may handle those together; now and then the same frame again, a wrong length, or an end in
        the middle of a frame. And those that are new, with their correlation ids."""
        chance = self._chance
        first = chance.getrandbits(31)
        made: list[bytes] = []
        fresh: list[tuple[int, bytes]] = []
        like, row = b"", 0
        for number in range(frames):
            if not row:
                like, row = chance.choice(self.pool)[:4], chance.choice(_ROWS)
            row -= 1
            one, new = self.frame(like)
            if len(one) >= _HEADER:
                correlation = (first + number) & 0x7FFFFFFF
                one = one[:4] + _LENGTH.pack(correlation) + one[_HEADER:]
                if new:
                    fresh.append((correlation, one))
            made.append(frame(one))
            if chance.random() < 0.03:
                made += [made[chance.randrange(len(made))]] * chance.randint(1, 5)
        dice = chance.random()
        if dice < 0.02:
            chance.shuffle(made)
        elif dice < 0.05:
            at = chance.randrange(len(made))
            made[at] = self._wrong_length(made[at])
        elif dice < 0.08:
            made[-1] = made[-1][: chance.randrange(1, len(made[-1]))]
        return b"".join(made), fresh

    def _wrong_length(self, one: bytes) -> bytes:
        chance = self._chance
        if chance.random() < 0.5:
            length = chance.choice(_LENGTHS)
        else:
            length = len(one) - 4 + chance.choice((-2, -1, 1, 2, 100))
        return _LENGTH.pack(length) + one[4:]

    # Each changes a frame in place; a frame may be empty ------------------------------------

    def _at(self, made: bytearray) -> int:
        """Mostly behind the header, since little is to be found in it."""
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
        """The rest of another frame, mostly of the same API."""
        other = self._chance.choice(self.pool)
        for _ in range(20):
            if other[:2] == made[:2]:
                break
            other = self._chance.choice(self.pool)
        at = self._at(made)
        made[at:] = other[min(at, len(other)) :]

    def _version(self, made: bytearray) -> None:
        """Another version, or another API."""
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
