"""TLS records of one byte, and handshakes that are begun and never finished."""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

from tests.attack.attack import Attack
from tests.attack.entries import BEFORE_TLS, INSIDE_TLS, Entry, login, pour
from tests.attack.scene import Ended, Link, Scene
from tests.support.certificates import client_hello

CONNECTIONS, RECORDS = 100, 30_000
HELLOS_S = 1000
"""Handshakes that are begun in a second."""


def tiny_records(entry: Entry) -> Callable[[Scene, Any], None]:
    """Each connection shakes hands and makes its records, of the bytes of a long frame; then all
    are sent at once."""

    def run(scene: Scene, _: Any) -> None:
        context = scene.victim.tls()
        doors = cycle(scene.victim.doors)
        made: dict[Link, bytes] = {}
        half_s = scene.left_s / 2
        for _ in range(scene.many(CONNECTIONS)):
            if scene.left_s < half_s:
                break
            try:
                link = scene.link_to(next(doors).secure_login)
                made[link] = _records(link, context, entry)
            except Ended:
                continue
        scene.got.note = f"{len(made)} connections with {RECORDS:,} records each"
        pour(scene, list(made), made.__getitem__)
        scene.rest(scene.left_s)

    return run


def _records(link: Link, context: ssl.SSLContext, entry: Entry) -> bytes:
    """The records, once the connection has shaken hands. Raises Ended."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            link.send(outgoing.read())
            incoming.write(link.receive_some())
        else:
            break
    if entry.logged_in:
        tls.write(login())
    for byte in struct.pack(">i", 400_000) + bytes(RECORDS - 4):
        tls.write(bytes([byte]))
    return outgoing.read()


def hellos(scene: Scene, _: Any) -> None:
    """So many connections a second say hello and nothing more."""
    hello = client_hello(scene.victim.tls())
    doors = cycle(scene.victim.doors)
    links: list[Link] = []
    began, count = time.monotonic(), 0
    while scene.go_on():
        while count < (time.monotonic() - began) * HELLOS_S and scene.go_on():
            count += 1
            try:
                link = scene.link_to(next(doors).secure)
            except Ended:
                continue
            link.send_some(hello)
            links.append(link)
            # Those that were ended are old ones.
            if len(links) > 10_000:
                links.pop(0).close()
        scene.rest(0.005)
    scene.got.note = f"{count:,} hellos"
    scene.got.closed += sum(link.is_closed() for link in links)


ATTACKS = (
    *(
        Attack(
            f"records of one byte, {entry.name}",
            f"{CONNECTIONS} connections with {RECORDS:,} TLS records of one byte; {entry.name}",
            tiny_records(entry),
            peers=("groupd",),
            doors=True,
            from_issue=True,
            short_s=2.0,
            at_least_s=30.0,
        )
        for entry in (BEFORE_TLS, INSIDE_TLS)
    ),
    Attack(
        "unfinished handshakes",
        f"{HELLOS_S:,} ClientHellos a second, and nothing behind them",
        hellos,
        peers=("groupd",),
        doors=True,
        from_issue=True,
    ),
)
