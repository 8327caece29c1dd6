"""Ways to damage the files of a SQLite store. `python -m tests.crash.damage` tries many."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from groupd.storage.open import DATABASE_FILE
from tests.crash.golden import Content, judge, make

PAGE_BYTES = 4096
WAL_HEADER_BYTES, FRAME_BYTES = 32, 24 + PAGE_BYTES


def database(directory: Path) -> Path:
    return directory / DATABASE_FILE


def wal(directory: Path) -> Path:
    return directory / f"{DATABASE_FILE}-wal"


def flip(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


Damage = Callable[[Path], None]
"""Changes the files of the store in a directory."""


def random_damages(
    source: Random, closed: Path, killed: Path
) -> Iterator[tuple[str, Path, Damage]]:
    """Damages without end: (what it is, which store it is for, the damage)."""
    while True:
        origin = source.choice((closed, killed))
        of_wal = origin is killed and source.random() < 0.5
        path_of = wal if of_wal else database
        size = path_of(origin).stat().st_size
        position, bit = source.randrange(size), source.randrange(8)
        page = position - position % PAGE_BYTES
        # The first bytes of a page say how to read the rest of it.
        if source.random() < 0.3:
            position = page + source.randrange(16)
        kind = source.choices(("flip", "cut", "zeros", "noise"), (8, 2, 1, 1))[0]
        noise = source.randbytes(512)
        damages: dict[str, Damage] = {
            "flip": lambda d, p=path_of, at=position, b=bit: flip(p(d), at, b),
            "cut": lambda d, p=path_of, at=position: cut(p(d), at),
            "zeros": lambda d, p=path_of, at=page: overwrite(p(d), at, bytes(PAGE_BYTES)),
            "noise": lambda d, p=path_of, at=position, n=noise: overwrite(p(d), at, n),
        }
        where = "wal" if of_wal else "database"
        yield f"{kind} in the {where} at {position} (bit {bit})", origin, damages[kind]


async def try_damages(
    directory: Path, content: Content, closed: Path, killed: Path, seed: int, count: int
) -> Counter[str]:
    """Tries `count` damages: how many were refused, failed in part or did no harm. Fails if one was
    served."""
    outcomes: Counter[str] = Counter()
    damages = random_damages(Random(seed), closed, killed)
    for number in range(count):
        what, origin, damage = next(damages)
        copy = directory / f"damage-{seed}-{number}"
        shutil.copytree(origin, copy)
        damage(copy)
        verdict = await judge(copy, content)
        if verdict.wrong:
            raise AssertionError(f"{what} of {origin.name}: {verdict}; the store is {copy}")
        if verdict.failures:
            assert verdict.logged, f"{what} of {origin.name}: no error was logged"
        outcomes["refused" if verdict.refused else "failed" if verdict.failures else "whole"] += 1
        shutil.rmtree(copy)
    return outcomes


async def _main(seed: int, count: int) -> None:
    directory = Path(tempfile.mkdtemp(prefix="groupd-damage-"))
    stores = await make(directory)
    print(dict(await try_damages(directory, *stores, seed, count)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.crash.damage", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(_main(options.seed, options.count))
