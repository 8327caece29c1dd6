"""One change of the catalogue at a time, and what other nodes of a cluster have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from groupd.coordinator.catalogue_changes import (
    ATTEMPTS_MAX,
    TOPICS,
    CatalogueChanges,
    security_of,
)
from groupd.coordinator.runtime.data_routes import CHANGING
from groupd.coordinator.topics.requests import data_routes
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.acls import AclFilter, CreateAclsRequest, DescribeAclsRequest
from groupd.protocol.messages.topics import DeleteTopicsRequest
from groupd.storage.cluster import CatalogueBehind
from groupd.storage.log import LogUnavailable, SecurityEntry
from groupd.storage.memory import MemoryStore
from tests.support.acls import acl
from tests.support.shared_catalogue import CatalogueNode, NodeStore, SharedCatalogue

ENTRY = SecurityEntry("quota", "k", "v")


class AskedCache:
    """Remembers what it was asked to read."""

    def __init__(self) -> None:
        self.asked: list[list[str] | str] = []

    async def read_all(self) -> None:
        self.asked.append("all")

    async def read(self, names: Sequence[str]) -> None:
        self.asked.append(list(names))


@pytest.fixture
async def shared() -> SharedCatalogue:
    return await SharedCatalogue().started()


@pytest.fixture
def store(shared: SharedCatalogue) -> NodeStore:
    return shared.node()


@pytest.fixture
def changes(store: NodeStore) -> CatalogueChanges:
    return CatalogueChanges(store)


@pytest.fixture
def cache(changes: CatalogueChanges) -> AskedCache:
    cache = AskedCache()
    changes.follow(security_of("quota"), cache)
    return cache


async def test_caches_are_told_what_has_changed(
    shared: SharedCatalogue, changes: CatalogueChanges, cache: AskedCache
) -> None:
    topics = AskedCache()
    changes.follow(TOPICS, topics)
    other = shared.node()
    await other.change_security([ENTRY, SecurityEntry("acl", "a", "")])
    await other.change_security([SecurityEntry("quota", "l", None), ENTRY])
    await other.delete_topic(b"\x01" * 16)
    await changes.catch_up()
    assert (cache.asked, topics.asked) == ([["k", "l"]], [["01" * 16]])
    assert (changes.applied, changes.made) == (3, 0)
    await changes.catch_up()
    assert len(cache.asked) == 1


async def test_a_change_that_is_too_late_is_made_anew(
    shared: SharedCatalogue, store: NodeStore, changes: CatalogueChanges, cache: AskedCache
) -> None:
    await shared.node().change_security([ENTRY])
    await changes.make(lambda: store.change_security([ENTRY]))
    assert (store.writes, cache.asked) == (2, [["k"]])
    assert (changes.applied, changes.made) == (2, 2)


async def test_nobody_tries_for_ever(changes: CatalogueChanges) -> None:
    tries = 0

    async def change() -> None:
        nonlocal tries
        tries += 1
        raise CatalogueBehind("again")

    with pytest.raises(LogUnavailable, match="all the time"):
        await changes.make(change)
    assert tries == ATTEMPTS_MAX


async def test_after_an_unknown_outcome_everything_is_read(
    store: NodeStore, changes: CatalogueChanges, cache: AskedCache
) -> None:
    store.lost_answers = 1
    with pytest.raises(LogUnavailable):
        await changes.make(lambda: store.change_security([ENTRY]))
    assert (changes.applied, changes.made) == (0, 0)
    await changes.make(lambda: store.change_security([ENTRY]))
    assert (cache.asked, changes.applied) == (["all"], 2)


async def test_a_refused_change_leaves_nothing_to_read(
    changes: CatalogueChanges, cache: AskedCache
) -> None:
    async def refused() -> None:
        raise ApiError(ErrorCode.INVALID_REQUEST)

    with pytest.raises(ApiError):
        await changes.make(refused)
    await changes.catch_up()
    assert cache.asked == []


async def test_a_cancelled_change_counts_once_it_is_read(
    store: NodeStore, changes: CatalogueChanges, cache: AskedCache
) -> None:
    store.committed = asyncio.Event()
    task = asyncio.create_task(changes.make(lambda: store.change_security([ENTRY])))
    while not (await store.changes()).version:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert changes.applied == 0
    await changes.catch_up()
    assert (cache.asked, changes.applied) == (["all"], 1)
    await changes.catch_up()
    assert cache.asked == ["all"]


async def test_a_version_counts_once_memory_has_it(
    store: NodeStore, changes: CatalogueChanges
) -> None:
    seen = []

    async def change() -> None:
        await store.change_security([ENTRY])
        # Memory may take its time.
        await asyncio.sleep(0)
        seen.append((changes.applied, changes.version))

    await changes.make(change)
    assert (seen, changes.applied) == ([(0, 1)], 1)


async def test_another_timeline_is_read_anew(
    shared: SharedCatalogue, store: NodeStore, changes: CatalogueChanges, cache: AskedCache
) -> None:
    for _ in range(3):
        await changes.make(lambda: store.change_security([ENTRY]))
    del shared.entries[1:]  # lost with the server
    changes.forget()
    assert (changes.applied, changes.made) == (-1, -1)
    await changes.catch_up()
    assert (cache.asked, changes.applied) == (["all"], 1)
    await changes.make(lambda: store.change_security([ENTRY]))
    assert changes.applied == 2


async def test_what_is_read_while_all_is_forgotten_does_not_count(
    shared: SharedCatalogue, changes: CatalogueChanges, cache: AskedCache
) -> None:
    await shared.node().change_security([ENTRY])
    task = asyncio.create_task(changes.catch_up())
    await asyncio.sleep(0)
    changes.forget()
    await task
    assert changes.applied == -1
    cache.asked.clear()
    await changes.catch_up()
    assert (cache.asked, changes.applied) == (["all"], 1)


async def test_without_a_cluster_nothing_is_followed(cache: AskedCache) -> None:
    store = MemoryStore()
    await store.start()
    changes = CatalogueChanges()
    await changes.make(lambda: store.change_security([ENTRY]))
    await changes.catch_up()
    assert (changes.applied, changes.made, changes.version) == (0, 0, None)


async def test_a_topic_that_was_read_early_counts_as_created_by_what_comes(
    shared: SharedCatalogue,
) -> None:
    """Rows may be newer than the version that is read. Expressions that were resolved at that
    version on another node, without the topic, have to be resolved again."""
    a, b = [await CatalogueNode(shared.node(), number).start() for number in (1, 2)]
    first = await a.topics.create("first", 1, {})
    early = await shared.node().changes()
    await a.topics.create("second", 1, {})
    # It reads the rows of version 2 as those of version 1, and "second" with them.
    await b.topics.read_all()
    b.store.journal.advance(early.version)
    assert b.topics.topic("second") is not None
    await b.catch_up()
    assert b.topics.image.created_version == b.topics.image.version == 2
    # A change of a topic that is known creates none.
    await a.topics.create("third", 1, {})
    await b.catch_up()
    await a.topics.change_configs(first.topic_id, lambda _: {"retention.ms": "1"})
    await a.topics.change_configs(first.topic_id, lambda _: {"retention.ms": "2"})
    await b.catch_up()
    await a.topics.grow(first.topic_id, 2)
    await b.catch_up()
    assert (b.topics.image.version, b.topics.image.created_version) == (6, 5)


async def test_replies_wait_for_the_other_nodes(shared: SharedCatalogue) -> None:
    node = await CatalogueNode(shared.node(), 1).start()
    waited: list[int] = []

    async def spread(version: int) -> None:
        waited.append(version)

    node.changes.spread = spread
    create = CreateAclsRequest((acl("ALLOW alice READ topic foo"),))
    await node.ask(create)
    assert waited == [1]
    # Nothing is new.
    await node.ask(create)
    await node.ask(DescribeAclsRequest(AclFilter()))
    assert waited == [1]


async def test_every_request_that_may_change_something_has_a_handler(
    cluster: Any, store: NodeStore
) -> None:
    node = CatalogueNode(store, 1)
    assert data_routes(cluster.plane).keys() | node.security.handlers.keys() > CHANGING


async def test_topics_of_the_start_may_be_made_by_another_node(
    cluster: Any, shared: SharedCatalogue
) -> None:
    planes = []
    for first_id in (0, 1000):
        store = shared.node()
        node = type(cluster)(store)
        node.ids = first_id
        planes.append((await node.start(changes=CatalogueChanges(store))).plane)
    await asyncio.gather(*(plane.create_missing([("t", 3)]) for plane in planes))
    assert len(await shared.rows.topics()) == 1
    assert planes[0].catalogue.topic("t") == planes[1].catalogue.topic("t") is not None


async def test_logs_go_once_no_node_has_their_topic(cluster: Any) -> None:
    for name in ("a", "b"):
        await cluster.create(name)
        await cluster.produce(name, cluster.batch(b"v"))
    stored: list[int] = []

    async def spread(version: int) -> None:
        stored.append(len(await cluster.store.log_sizes()))

    cluster.plane.changes.spread = spread
    keys = (("a", NO_TOPIC_ID), ("b", NO_TOPIC_ID))
    await cluster.ask(DeleteTopicsRequest(keys))
    assert (stored, await cluster.store.log_sizes()) == ([2], {})
