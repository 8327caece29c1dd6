"""Many of everything: groups, members, topics, producers, sessions."""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from groupd.protocol.records.batch_builder import encode_batch
from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.attacks_lists import in_turn, made, with_topic
from tests.attack.scene import Ended, Scene

NOW_MS = 1_700_000_000_000
PENDING = 159_000
Numbered = Callable[[int], bytes]


def endless(
    make: Numbered, key: str | None = None, batch: int = 100
) -> Callable[[Scene, Any], None]:
    """Request after request, each different, a batch at a time; with `key` to its coordinator."""

    def run(scene: Scene, _: Any) -> None:
        numbers = itertools.count(1)

        def made() -> Iterator[bytes]:
            while scene.go_on():
                yield make(next(numbers))

        while scene.go_on():
            try:
                link = scene.link() if key is None else scene.link_to_coordinator(key)
                scene.pipelined(made(), link, batch)
            except Ended:
                scene.rest(0.01)

    return run


def pending_joins(scene: Scene, _: Any) -> None:
    """159,000 members of one group that have an id and never come; then the group's page."""
    asked = frames.join_group("pending")
    link = scene.link_to_coordinator("pending")
    scene.pipelined((asked for _ in range(PENDING) if scene.go_on()), link, 500)
    page = f"http://{scene.victim.address[0]}:{scene.victim.admin}/groups/pending"
    while scene.go_on() and scene.victim.admin:
        with urllib.request.urlopen(page, timeout=20) as reply:
            scene.got.received += len(reply.read())


def member_storm(scene: Scene, _: Any) -> None:
    """1,000 connections, each a member of one KIP-848 group and of one classic group."""
    at = [scene.victim.coordinator(group) for group in ("storm-consumer", "storm-classic")]
    for number in range(1000):
        for address, asked in (
            (at[0], frames.consumer_join("storm-consumer", f"member-{number}", ["honest"])),
            (at[1], frames.join_group("storm-classic", version=2)),
        ):
            try:
                scene.link_to(address).send_some(asked)
            except Ended:
                if not scene.go_on():
                    return
    scene.rest(scene.seconds)


REGEXES = (
    "(a+)+$",
    "(a|a)*b",
    "(.*)*x",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y",
    "a{1,1000}{1,1000}",
    "(?:a?){500}a{500}",
    "(" * 200 + "a" + ")" * 200,
    "|".join(f"topic-{number}" for number in range(2_500)),
    "[" + "a-z" * 10_000 + "]",
)


def _topics(scene: Scene) -> None:
    link = scene.link()
    for first in range(0, 2000, 100):
        named = ((f"{'a' * 200}-{number}", 1) for number in range(first, first + 100))
        link.ask(frames.create_topics(named))
    link.close()


def _regex(number: int) -> bytes:
    regex = REGEXES[number % len(REGEXES)] + f"|{number}"
    return frames.consumer_join("regex", f"member-{number}", (), regex)


def _metadata(number: int) -> bytes:
    return frames.metadata((f"created-{number}-{one}" for one in range(50)), create=True)


def _session(_: int) -> bytes:
    return frames.fetch(frames.array([frames.fetch_item("honest", (0, 1))]), session=(0, 0))


def _telemetry(number: int) -> bytes:
    instance = number.to_bytes(16)
    if number % 10:
        return frames.get_telemetry(instance)
    return frames.push_telemetry(instance, bytes(900_000))


def _commit(number: int) -> bytes:
    item = frames.commit_item("fifty", range(50), "m" * 4000)
    return frames.offset_commit(f"committed-{number}", frames.array([item]))


def _transactional_commit(_: int) -> bytes:
    item = frames.commit_item("honest", range(2000))
    return frames.txn_offset_commit("nobody", "txn-group", frames.array([item]))


def _configs(number: int) -> bytes:
    named = [("retention.ms", str(number)), *((f"x.{number}.{one}", "v") for one in range(50))]
    return frames.alter_topic_configs("honest", named)


def tiny_batches(scene: Scene, prepared: Any) -> None:
    batch = frames.produce("tiny", encode_batch(0, -1, NOW_MS, [(None, b"v")]))
    endless(lambda _: batch)(scene, prepared)


def many_producers(scene: Scene, prepared: Any) -> None:
    """Each batch has another producer id, so each adds a state to the partition."""

    def make(number: int) -> bytes:
        batch = encode_batch(0, -1, NOW_MS, [(None, b"v")], 1_000_000 + number, 0, 0)
        return frames.produce("tiny", batch)

    endless(make)(scene, prepared)


def sync(scene: Scene, _: Any) -> None:
    """SyncGroups with assignments of 5 MB, in a generation that does not exist."""
    given = [(f"member-{number}", bytes(5_000)) for number in range(1000)]
    asked = frames.sync_group("synced", 1, "nobody", given)
    scene.repeat(
        lambda link: link.ask(asked, "SyncGroup"), lambda: scene.link_to_coordinator("synced")
    )


def huge_ids(number: int) -> bytes:
    """A client id of 32 KB, protocols of 200 KB: both are kept for each member."""
    return frames.join_group(
        f"huge-{number}", version=2, metadata=bytes(200_000), client="c" * 32_000
    )


ATTACKS = (
    Attack(
        "pending joins",
        "159,000 pending joins in one group, and its page",
        pending_joins,
        soils=True,
        from_issue=True,
    ),
    Attack("member storm", "1,000 members join a group of each protocol", member_storm, soils=True),
    Attack(
        "many groups",
        "a group each request",
        endless(
            lambda number: frames.offset_commit(
                f"many-{number}", frames.array([frames.commit_item("honest", (0,))])
            )
        ),
        soils=True,
    ),
    Attack(
        "large commits",
        "50 partitions with 4 KB of metadata each",
        endless(_commit, batch=5),
        with_topic("fifty", 50),
        soils=True,
    ),
    Attack(
        "many members' groups",
        "a KIP-848 group each request",
        endless(
            lambda number: frames.consumer_join(f"consumers-{number}", f"m{number}", ["honest"])
        ),
        soils=True,
    ),
    Attack(
        "huge members",
        "a classic group each request, client id 32 KB, metadata 200 KB",
        endless(huge_ids, batch=1),
        soils=True,
    ),
    Attack(
        "regexes",
        "expressions that explode, 2,000 topics",
        endless(_regex, "regex", 5),
        _topics,
        soils=True,
    ),
    Attack(
        "topics by Metadata",
        "50 topics created by each Metadata",
        endless(_metadata, batch=2),
        soils=True,
    ),
    Attack("fetch sessions", "a fetch session each request", endless(_session)),
    Attack("producer ids", "InitProducerId", endless(lambda _: frames.init_producer()), soils=True),
    Attack(
        "many producers",
        "each batch from another producer",
        many_producers,
        with_topic("tiny", 1),
        soils=True,
    ),
    Attack(
        "transactional ids",
        "a transactional id each request",
        endless(lambda number: frames.init_producer(f"transactional-{number}"), batch=50),
        soils=True,
    ),
    Attack(
        "TxnOffsetCommit", "of 2,000 partitions", endless(_transactional_commit, "txn-group", 5)
    ),
    Attack(
        "telemetry",
        "an instance each request, pushes of 900 KB",
        endless(_telemetry, batch=10),
        soils=True,
    ),
    Attack(
        "tiny batches",
        "a record each Produce, pipelined",
        tiny_batches,
        with_topic("tiny", 1),
        soils=True,
    ),
    Attack("many configs", "51 configs each request", endless(_configs, batch=10), soils=True),
    Attack("SyncGroup", "assignments of 5 MB", sync),
    Attack(
        "bad groups",
        "requests about groups without names",
        in_turn,
        made(
            ("Heartbeat", lambda: frames.heartbeat("", -1, "")),
            ("JoinGroup", lambda: frames.join_group("")),
        ),
    ),
)
