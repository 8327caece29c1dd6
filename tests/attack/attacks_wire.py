"""Bytes that no honest client sends, and connections that come and go."""

from __future__ import annotations

import struct
from typing import Any

from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.scene import Ended, Link, Scene
from tests.attack.widest import widest_frames
from tests.support.raw import frame

SMALL = 400
STORM = 200


def mutated(scene: Scene, prepared: list[tuple[str, bytes]]) -> None:
    """Bytes changed, cut out, put in; the length fits, so that it is decoded."""
    while scene.go_on():
        for link in scene.links(20):
            try:
                link.send(b"".join(_mutated(scene, prepared) for _ in range(20)))
            except Ended:
                continue
            finally:
                link.is_closed()
                link.close()


def _mutated(scene: Scene, prepared: list[tuple[str, bytes]]) -> bytes:
    chance = scene.random
    _, one = chance.choice(prepared)
    body = bytearray(one[4:])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(4, len(body))
        kind = chance.randrange(4)
        if kind == 0:
            body[at] = chance.randrange(256)
        elif kind == 1:
            body[at : at + 1] = bytes([0xFF] * chance.randint(1, 6))
        elif kind == 2:
            del body[at : at + chance.randint(1, 8)]
            if len(body) < 12:
                body += bytes(12)
        else:
            body[at:at] = chance.randbytes(chance.randint(1, 8))
    return frame(bytes(body))


def bad_frames(scene: Scene, _: Any) -> None:
    """200,000 frames that cannot be decoded, each of which ends its connection."""
    bad = frames.request(frames.METADATA, 9, b"\xff\xff\xff\xff\x7f")
    count = 0
    while scene.go_on() and count < 200_000:
        for link in scene.links(50):
            count += 1
            try:
                link.send(bad)
            except Ended:
                continue
            finally:
                link.close()
    scene.got.note = f"{count:,} frames"


def varints(scene: Scene, _: Any) -> None:
    """Lengths and counts that claim more than there is."""
    claims = [b"\xff" * n + b"\x7f" for n in range(1, 11)] + [b"\x80" * 5, b"\xff\xff\xff\xff\x07"]
    while scene.go_on():
        for claim in claims:
            for key, version in ((3, 9), (15, 5), (9, 8), (10, 4), (16, 5), (32, 4), (68, 1)):
                try:
                    link = scene.link()
                except Ended:
                    continue
                try:
                    link.send(frames.request(key, version, claim + bytes(100)))
                    link.skip_reply()
                except Ended:
                    continue
                finally:
                    link.close()


def slowloris(scene: Scene, _: Any) -> None:
    """500 connections that send a byte now and then."""
    asked = frames.metadata_all()
    links = scene.links(500)
    at = 0
    while scene.go_on():
        for link in links:
            link.send_some(asked[at % len(asked) :][:1])
        at += 1
        scene.rest(0.05)


def storm(scene: Scene, _: Any) -> None:
    """Connections that come, ask and go without reading."""
    asked = frames.request(frames.API_VERSIONS, 0, b"", flexible=False)
    count = 0
    while scene.go_on():
        links = scene.links(STORM)
        count += len(links)
        for link in links:
            link.send_some(asked)
        for link in links:
            link.close()
    scene.got.note = f"{count:,} connections"


def deep(scene: Scene, _: Any) -> None:
    """Heartbeats of nobody, 10,000 at a time over one connection."""
    asked = frames.heartbeat("nobody", 1, "nobody") * 10_000

    def once(link: Link) -> None:
        link.send(asked)
        for _ in range(10_000):
            link.skip_reply()

    scene.repeat(once, lambda: scene.link_to_coordinator("nobody"))


def lengths(scene: Scene, _: Any) -> None:
    """Frames that are too long, empty or negative."""
    sizes = (2**31 - 1, 104_857_601, -1, -(2**31), 0, 1, 7)
    while scene.go_on():
        for link, size in zip(scene.links(len(sizes)), sizes, strict=False):
            try:
                link.send(struct.pack(">i", size) + bytes(20))
            except Ended:
                continue
            finally:
                link.close()


ATTACKS = (
    Attack(
        "bad frames",
        "200,000 frames that cannot be decoded",
        bad_frames,
        from_issue=True,
    ),
    Attack(
        "mutated frames",
        "requests of all APIs with bytes changed, cut out and put in",
        mutated,
        lambda _: widest_frames(SMALL),
        soils=True,
    ),
    Attack("varints", "counts and lengths that claim more than there is", varints),
    Attack("lengths", "frames that are too long, empty or negative", lengths),
    Attack("slowloris", "500 connections that send a byte now and then", slowloris),
    Attack("connection storm", "connections that come, ask and go", storm),
    Attack("deep pipeline", "10,000 pipelined heartbeats at a time", deep),
)
