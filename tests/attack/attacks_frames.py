"""Frames that cost their sender nothing: empty, tiny, unknown or never finished."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.entries import ENTRIES, INSIDE_TLS, Entry, all_in, comes_in, pour
from tests.attack.scene import Ended, Link, Scene
from tests.support.raw import frame

ZEROS = bytes(256 * 1024)
"""65,536 empty frames."""
SHORTEST = frame(struct.pack(">hhih", frames.API_VERSIONS, 0, 1, -1))
"""A valid request in a frame of 10 bytes: ApiVersions without a client id."""
UNKNOWN = frames.request(frames.API_VERSIONS, 99, frames.NONE + frames.NONE + frames.TAGS)
UNFINISHED = struct.pack(">i", 500_000) + bytes(262_140)
"""The first 262 KB of a frame that may be sent before the login, too."""

Run = Callable[[Scene, Any], None]


def at_once(entry: Entry, count: int, data: bytes) -> Run:
    """Makes `count` connections, then sends the data on all of them at once. They stay open."""

    def run(scene: Scene, _: Any) -> None:
        links = all_in(scene, entry, scene.many(count))
        scene.got.note = f"{len(links):,} connections"
        pour(scene, links, data)
        scene.rest(scene.left_s)

    return run


def as_taken(entry: Entry, count: int, data: bytes) -> Run:
    """Sends the data again and again on `count` connections, as fast as the broker takes it. A
    connection that the broker has ended is made again."""

    def run(scene: Scene, _: Any) -> None:
        one = comes_in(scene, entry)

        def again() -> Link:
            while scene.go_on():
                try:
                    return one()
                except Ended:
                    scene.rest(0.01)
            raise Ended

        links = all_in(scene, entry, scene.many(count))
        scene.got.note = f"{len(links):,} connections"
        pour(scene, links, data, again=again, endless=True)

    return run


def _rows(
    name: str, what: str, count: int, run: Callable[[Entry, int, bytes], Run], data: bytes
) -> list[Attack]:
    """The attack by each way in. With TLS fewer connections: their handshakes would be an attack
    of their own."""
    made = []
    for entry in ENTRIES:
        fewer = min(count, 1000) if entry.secure else count
        made.append(
            Attack(
                f"{name}, {entry.name}",
                f"{what.format(f'{fewer:,} connections')}; {entry.name}",
                run(entry, fewer, data),
                peers=("groupd",),
                doors=True,
                from_issue=True,
                short_s=2.0,
                at_least_s=20.0 if entry is INSIDE_TLS or count > fewer else 15.0,
            )
        )
    return made


ATTACKS = (
    *_rows("empty frames", "{} with 256 KB of zeros each", 1000, at_once, ZEROS),
    *_rows(
        "zeros without end",
        "{} at a time, made anew, with zeros as fast as groupd takes them",
        20,
        as_taken,
        ZEROS,
    ),
    *_rows(
        "frames of 10 bytes",
        "{} with pipelined ApiVersions of 10 bytes",
        1000,
        as_taken,
        SHORTEST * 20_000,
    ),
    *_rows(
        "unknown versions",
        "{} with pipelined ApiVersions of a version that nobody knows",
        1000,
        as_taken,
        UNKNOWN * 10_000,
    ),
    *_rows(
        "unfinished frames",
        "{} with 262 KB of a frame that is never finished",
        8000,
        at_once,
        UNFINISHED,
    ),
)
