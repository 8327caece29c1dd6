"""Raw streams of frames: empty and tiny ones, lengths that lie, good ones in between, cut anywhere.

A stream is made of a seed and nothing else. `python -m tests.fuzz.raw_frames SEED` shows it.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache

from tests.fuzz.seeds import Seeds
from tests.support.raw import api_versions, frame

SILENT_MOST = 5000
"""The most empty frames in a row."""
_LENGTHS = (-1, -(2**31), 2**31 - 1, 104_857_601, 1 << 20, 500_000, 65_536, 100, 9, 1)
_HEADER = 8


@cache
def pool() -> Sequence[bytes]:
    """A valid request of every version of every API."""
    return Seeds(random.Random(1)).every_version(1)


def raw_frames(seed: int, without: frozenset[int] = frozenset()) -> bytes:
    """The stream of a seed. `without`: the APIs of good frames that it has none of."""
    chance = random.Random(seed)
    good = [one for one in pool() if int.from_bytes(one[:2]) not in without]
    makers: tuple[Callable[[], bytes], ...] = (
        lambda: bytes(4 * chance.choice((1, 2, 100, chance.randint(1, SILENT_MOST)))),
        lambda: _tiny(chance),
        lambda: _shortest(chance) * chance.choice((1, 1, 50, 500)),
        lambda: frame(chance.choice(good)),
        lambda: frame(chance.choice(good)),
        lambda: (
            api_versions(chance.getrandbits(31), chance.choice((0, 3, 99, 32_767)))
            * chance.choice((1, 1, 20, 300))
        ),
        lambda: _of_wrong_length(chance, chance.choice(good)),
    )
    # Mostly good ones come first: what lies behind a bad one is not looked at.
    parts = [chance.choice(makers[3:6])() for _ in range(chance.choice((0, 0, 1, 3, 10)))]
    parts += [chance.choice(makers)() for _ in range(chance.randint(1, 8))]
    stream = b"".join(parts)
    return stream[: chance.randrange(len(stream) + 1)] if chance.random() < 0.3 else stream


def _tiny(chance: random.Random) -> bytes:
    """Frames that are too short for a header, or have a header and nothing else."""
    size = chance.randint(1, 13)
    return frame(chance.choice((bytes(size), chance.randbytes(size)))) * chance.choice((1, 1, 300))


def _shortest(chance: random.Random) -> bytes:
    """Mostly an ApiVersions in a frame of 10 bytes, which is valid."""
    key = chance.choice((18, 18, 18, 18, 3, 16, chance.randrange(100)))
    return frame(struct.pack(">hhih", key, 0, chance.getrandbits(31), -1))


def _of_wrong_length(chance: random.Random, one: bytes) -> bytes:
    near = len(one) + chance.choice((-1, 1, -_HEADER, 4))
    return struct.pack(">i", chance.choice((*_LENGTHS, near))) + one


if __name__ == "__main__":
    print(raw_frames(int(sys.argv[1])).hex(" ", 4))
