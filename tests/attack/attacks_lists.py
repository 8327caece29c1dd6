"""Requests whose work grows with what they list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.scene import Ended, Link, Scene
from tests.attack.widest import widest_frames

TOPICS, PARTITIONS = 1000, 100
KAFKA_PARTITIONS = 5
"""So few because with 100 partitions each Kafka takes minutes to make the topics."""
MB = 1 << 20
EACH_S = 5.0
"""No reply is waited for longer than that."""


def many_topics(scene: Scene) -> None:
    """1,000 topics of 100 partitions."""
    each = KAFKA_PARTITIONS if scene.victim.kind == "kafka" else PARTITIONS
    link = scene.link()
    for first in range(0, TOPICS, 50):
        named = [(f"many-{number:04d}", each) for number in range(first, first + 50)]
        link.ask(frames.create_topics(named))
    link.close()


def with_topic(name: str, partitions: int) -> Callable[[Scene], None]:
    """Prepares one topic."""

    def prepare(scene: Scene) -> None:
        link = scene.link()
        link.ask(frames.create_topics([(name, partitions)]))
        link.close()

    return prepare


def metadata_pipelined(scene: Scene, _: Any) -> None:
    def once(link: Link) -> None:
        link.send(frames.metadata_all() * 100)
        for _ in range(100):
            link.skip_reply()

    scene.repeat(once)


Named = tuple[str, bytes]
"""The name of a request for the table, and its frame."""


def made(*asked: tuple[str, Callable[[], bytes]]) -> Callable[[Scene], list[Named]]:
    """Builds the requests that `in_turn` sends."""
    return lambda _: [(what, make()) for what, make in asked]


def in_turn(scene: Scene, prepared: Sequence[Named]) -> None:
    """These requests in turn, one at a time, over one connection."""

    def once(link: Link) -> None:
        for what, frame in prepared:
            link.ask(frame, what)

    scene.repeat(once)


def _describe_empty(size: int) -> Callable[[], bytes]:
    return lambda: frames.describe_groups(frames.repeated(frames.NONE, size))


def _fetch_many_partitions() -> bytes:
    item = frames.fetch_item("honest", range(55_000))
    return frames.fetch(frames.array([item]))


LARGE: Sequence[tuple[str, Callable[[], bytes]]] = (
    ("FindCoordinator", lambda: frames.find_coordinator(frames.repeated(frames.NONE, 2 * MB))),
    (
        "FindCoordinator, distinct",
        lambda: frames.find_coordinator(frames.distinct(2 * MB)),
    ),
    (
        "OffsetFetch",
        lambda: frames.offset_fetch(frames.repeated(frames.group_item(""), 2 * MB)),
    ),
    ("ListGroups, states", lambda: frames.list_groups(frames.repeated(frames.NONE, 2 * MB))),
    (
        "ListGroups, types",
        lambda: frames.list_groups(frames.NONE, frames.distinct(2 * MB)),
    ),
    (
        "DescribeConfigs",
        lambda: frames.describe_configs(frames.repeated(frames.config_item(""), 2 * MB)),
    ),
    (
        "DescribeConfigs of one topic",
        lambda: frames.describe_configs(frames.repeated(frames.config_item("honest"), 2 * MB)),
    ),
    (
        "Fetch, topics",
        lambda: frames.fetch(frames.repeated(frames.fetch_item("", ()), 2 * MB)),
    ),
    ("Fetch, partitions", _fetch_many_partitions),
    (
        "LeaveGroup",
        lambda: frames.leave_group("left", frames.repeated(frames.LEAVING, 2 * MB)),
    ),
    (
        "OffsetCommit, topics",
        lambda: frames.offset_commit("x", frames.repeated(frames.commit_item("", ()), 2 * MB)),
    ),
    (
        "OffsetCommit, partitions",
        lambda: frames.offset_commit(
            "x", frames.array([frames.commit_item("honest", range(110_000))])
        ),
    ),
)


def create_partitions(scene: Scene, _: Any) -> None:
    """4 KB: 200 topics of 10,000 partitions. Then everybody's Metadata is large."""
    asked = frames.create_topics((f"wide-{number}", 10_000) for number in range(200))
    link = scene.link()
    link.ask(asked, "CreateTopics")
    link.close()
    in_turn(scene, [("Metadata", frames.metadata_all())])


def every_array(scene: Scene, prepared: Sequence[Named]) -> None:
    """Each array of each API in turn, each a new connection: some requests are refused."""
    while scene.go_on():
        for name, frame in prepared:
            try:
                link = scene.link(within_s=EACH_S)
            except Ended:
                continue
            try:
                link.ask(frame, name)
            except Ended:
                continue
            finally:
                link.close()


def _named(name: str) -> Attack:
    make = dict(LARGE)[name]
    return Attack(f"{name}, 2 MB", f"{name} of 2 MB", in_turn, made((name, make)), from_issue=True)


ATTACKS = (
    Attack(
        "metadata",
        "100 pipelined Metadata(all) of 21 bytes, 1,000 topics x 100 partitions",
        metadata_pipelined,
        many_topics,
        soils=True,
        from_issue=True,
    ),
    Attack(
        "DescribeGroups, 0.7 MB",
        "DescribeGroups of 0.7 MB, ids of no length",
        in_turn,
        made(("DescribeGroups", _describe_empty(700_000))),
        from_issue=True,
    ),
    Attack(
        "DescribeGroups, 2 MB",
        "DescribeGroups of 2 MB, ids of no length",
        in_turn,
        made(("DescribeGroups", _describe_empty(2 * MB))),
        from_issue=True,
    ),
    Attack(
        "DescribeGroups, 2 MB, distinct",
        "DescribeGroups of 2 MB, different ids",
        in_turn,
        made(("DescribeGroups", lambda: frames.describe_groups(frames.distinct(2 * MB)))),
        from_issue=True,
    ),
    Attack(
        "ConsumerGroupDescribe, 2 MB",
        "ConsumerGroupDescribe of 2 MB, ids of no length",
        in_turn,
        made(
            (
                "ConsumerGroupDescribe",
                lambda: frames.consumer_describe(frames.repeated(frames.NONE, 2 * MB)),
            )
        ),
        from_issue=True,
    ),
    Attack(
        "ConsumerGroupDescribe, 2 MB, distinct",
        "ConsumerGroupDescribe of 2 MB, different ids",
        in_turn,
        made(
            (
                "ConsumerGroupDescribe",
                lambda: frames.consumer_describe(frames.distinct(2 * MB)),
            )
        ),
        from_issue=True,
    ),
    *(_named(name) for name, _ in LARGE),
    Attack(
        "CreateTopics, 2,000,000 partitions",
        "CreateTopics of 4 KB that makes 2,000,000 partitions, then Metadata",
        create_partitions,
        soils=True,
        from_issue=True,
    ),
    Attack(
        "every array, 4,000 items",
        "each array of each API with 4,000 of its smallest items, one after the other",
        every_array,
        lambda _: widest_frames(2 * MB, 4_000),
        soils=True,
    ),
    Attack(
        "every array, 240,000 items",
        "the same with 240,000 items: as many as groupd takes",
        every_array,
        lambda _: widest_frames(32 * MB, 240_000),
        soils=True,
        at_least_s=120.0,
    ),
    Attack(
        "every array, 240,000 different items",
        "the same with different names, ids and numbers",
        every_array,
        lambda _: widest_frames(32 * MB, 240_000, distinct=True),
        soils=True,
        at_least_s=120.0,
    ),
    Attack(
        "every array, 2 MB",
        "the same with 2 MB of them",
        every_array,
        lambda _: widest_frames(2 * MB),
        soils=True,
        at_least_s=30.0,
    ),
    Attack(
        "every array, 20 MB",
        "the same with 20 MB: requests that decode to much",
        every_array,
        lambda _: widest_frames(20 * MB),
        soils=True,
        at_least_s=30.0,
    ),
)
