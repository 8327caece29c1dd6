"""Attacks on memory: replies that nobody reads, frames that never end, batches that unpack."""

from __future__ import annotations

import os
import struct
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from groupd.protocol.records.batch_builder import encode_batch
from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.attacks_lists import Named, in_turn, many_topics, with_topic
from tests.attack.bombs import BOMBS, equal_records, zeros
from tests.attack.scene import Ended, Link, Scene

MB = 1 << 20
SMALL_BUFFER = 4096
NOW_MS = 1_700_000_000_000


def large_topic(scene: Scene) -> None:
    """A partition of 60 MB that does not compress."""
    link = scene.link()
    link.ask(frames.create_topics([("large", 1)]))
    batch = encode_batch(0, -1, NOW_MS, [(None, os.urandom(MB - 1000))])
    for _ in range(60):
        link.ask(frames.produce("large", batch))
    link.close()


def unread_fetches(connections: int, each: int) -> Callable[[Scene, Any], None]:
    asked = frames.fetch(frames.array([frames.fetch_item("large", (0,))]))

    def run(scene: Scene, _: Any) -> None:
        links = scene.links(connections, SMALL_BUFFER)
        for link in links:
            _try(lambda link=link: link.send(asked * each))  # type: ignore[misc]
        scene.rest(scene.seconds)
        scene.got.closed += sum(link.is_closed() for link in links)

    return run


def _try(act: Callable[[], object]) -> None:
    try:
        act()
    except Ended:
        return


def unread_metadata(scene: Scene, _: Any) -> None:
    links = scene.links(20, SMALL_BUFFER)
    for link in links:
        _try(lambda link=link: link.send(frames.metadata_all() * 500))  # type: ignore[misc]
    scene.rest(scene.seconds)


def half_frames(scene: Scene, _: Any) -> None:
    """40 connections with 20 MB of an announced 100 MB."""
    head = struct.pack(">ihhi", 100 * MB, frames.METADATA, 1, 1)
    data = head + bytes(20 * MB)
    links = scene.links(40)
    # In turn, without blocking: groupd stops reading some connections, and the others go on.
    sent = [0] * len(links)
    while scene.go_on() and any(count < len(data) for count in sent):
        for index, link in enumerate(links):
            sent[index] += link.send_some(data[sent[index] : sent[index] + MB])
        scene.rest(0.01)
    scene.rest(scene.seconds)
    scene.got.note = f"{sum(sent) // MB} MB of frames taken"


def deep_frames(scene: Scene, _: Any) -> None:
    """Requests of 90 MB that decode to much: groups without an id."""
    asked = frames.describe_groups(frames.repeated(frames.NONE, 90 * MB))
    scene.repeat(lambda link: link.ask(asked, "DescribeGroups of 90 MB"))


def bombs(scene: Scene) -> list[Named]:
    """Requests that produce each of the bombs in zstd, and some in the other codecs."""
    link = scene.link()
    link.ask(frames.create_compacted("compacted"))
    link.close()
    made = [(f"zstd, {name}", build("zstd")) for name, build in BOMBS.items()]
    for codec in ("gzip", "lz4", "snappy", "xerial"):
        made.append((f"{codec}, 100 MB of zeros", zeros(codec, 100 * MB)))
        made.append((f"{codec}, millions of records at one offset", equal_records(codec)))
    return [(name, frames.produce("compacted", batch)) for name, batch in made]


def many_unpackings(scene: Scene, prepared: list[Named]) -> None:
    """Sends the same requests as `bombs`, from 20 connections at once."""
    links = scene.links(20)
    while scene.go_on() and links:
        for _, asked in prepared:
            for link in list(links):
                try:
                    link.send(asked)
                except Ended:
                    links.remove(link)
            for link in list(links):
                try:
                    link.skip_reply()
                except Ended:
                    links.remove(link)


def many_groups_to_show(scene: Scene) -> None:
    """3,000 groups with an offset each, so that the page is long."""
    made = (
        frames.offset_commit(f"shown-{number}", frames.array([frames.commit_item("honest", (0,))]))
        for number in range(3_000)
    )
    link = scene.link()
    scene.pipelined(made, link)
    link.close()


def unread_pages(scene: Scene, _: Any) -> None:
    """100 HTTP connections that ask for /groups and do not read; is there a place for health?"""
    admin = (scene.victim.address[0], scene.victim.admin)
    links: list[Link] = []
    for _ in range(100):
        try:
            link = scene.link_to(admin, SMALL_BUFFER)
            link.send(b"GET /groups HTTP/1.1\r\nHost: localhost\r\n\r\n")
            links.append(link)
        except Ended:
            break
    answered, failed = 0, ""
    while scene.go_on():
        for page in ("/healthz", "/readyz", "/metrics"):
            try:
                with urllib.request.urlopen(f"http://{admin[0]}:{admin[1]}{page}", timeout=2) as it:
                    it.read()
                answered += 1
            except (OSError, urllib.error.URLError) as error:
                failed = f", {page}: {error}"
        scene.rest(0.1)
    scene.got.note = f"{len(links)} open; health answered {answered} times{failed}"


POLLED = 1_900
"""Partitions of a long poll: 60 KB, so two of its length are less than `byte_budget.SHORT`."""


def long_polls(scene: Scene, _: Any) -> None:
    """400 connections, each with the next long poll once the last is answered; beside them a
    client with requests that are longer than a heartbeat."""
    items = frames.array([frames.fetch_item("polled", range(POLLED))])
    poll = frames.fetch(items, wait_ms=60_000, min_bytes=MB)
    links = scene.links(400)
    waiting = dict.fromkeys(links, True)
    for link in links:
        _try(lambda link=link: link.send(poll))  # type: ignore[misc]
    beside = scene.link()
    while scene.go_on():
        for size in (8_000, 30_000):
            beside.ask(frames.heartbeat("nobody", 1, "m" * size), f"a request of {size} bytes")
        for link in list(waiting):
            received = scene.got.received
            if link.is_closed():
                del waiting[link]
            elif scene.got.received > received:
                _try(lambda link=link: link.send(poll))  # type: ignore[misc]
        scene.rest(0.05)
    scene.got.closed += len(links) - len(waiting)


ATTACKS = (
    Attack(
        "200 Fetches of 55 MB, unread",
        "200 pipelined Fetches of 55 MB whose replies are not read",
        unread_fetches(1, 200),
        large_topic,
        soils=True,
        from_issue=True,
    ),
    Attack(
        "Fetches of 55 MB, 50 connections, unread",
        "the same over 50 connections",
        unread_fetches(50, 4),
        large_topic,
        soils=True,
        from_issue=True,
    ),
    Attack(
        "Metadata, unread",
        "20 x 500 pipelined Metadata(all) whose replies are not read, 100,000 partitions",
        unread_metadata,
        many_topics,
        soils=True,
    ),
    Attack(
        "zstd bomb",
        "batches of some KB to a compacted topic that unpack to 30 MB to 1 GB",
        in_turn,
        bombs,
        soils=True,
        from_issue=True,
    ),
    Attack(
        "zstd bombs, 20 connections",
        "the same from 20 connections at once",
        many_unpackings,
        bombs,
        soils=True,
    ),
    Attack(
        "pages, unread",
        "100 HTTP connections that do not read /groups",
        unread_pages,
        many_groups_to_show,
        peers=("groupd",),
        soils=True,
        from_issue=True,
    ),
    Attack(
        "long polls",
        f"400 Fetches of {POLLED} partitions that wait, and a client with requests of 8 and 30 KB",
        long_polls,
        with_topic("polled", POLLED),
    ),
    Attack(
        "half frames",
        "40 connections with 20 MB of an announced 100 MB frame",
        half_frames,
        from_issue=True,
    ),
    Attack("frames of 90 MB", "DescribeGroups of 90 MB, ids of no length", deep_frames, soils=True),
)
