"""Streams in files: those that are kept with the code, and finds of a run."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

KEPT = Path(__file__).parent / "corpus"
SUFFIX = ".fuzz"
MOST_BYTES = 1_500_000
"""The size of all kept streams, before they are compressed to a third."""


def write(path: Path, streams: Iterable[bytes]) -> None:
    """Writes streams into one compressed file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(msgspec.msgpack.encode(list(streams)), 9))


def read(path: Path) -> list[bytes]:
    return msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=list[bytes])


def kept() -> list[bytes]:
    """All streams that are kept with the code."""
    return [stream for path in sorted(KEPT.glob(f"*{SUFFIX}")) for stream in read(path)]


def keep(streams: Iterable[bytes]) -> None:
    """Keeps the shortest of these streams, as many as fit."""
    chosen: list[bytes] = []
    size = 0
    for stream in sorted(set(streams), key=len):
        size += len(stream)
        if size > MOST_BYTES:
            break
        chosen.append(stream)
    write(KEPT / f"guided{SUFFIX}", chosen)
