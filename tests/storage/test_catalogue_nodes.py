"""What one node of a cluster changes in the catalogue is found on the others, over a catalogue in
memory and over a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.users import salt_secret
from groupd.coordinator.topics.coordinator_logs import fix_shard_count
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.acls import AclFilter, CreateAclsRequest, DeleteAclsRequest
from groupd.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaOperation,
)
from groupd.protocol.messages.secret import Secret
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
)
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.storage import postgres_cluster
from groupd.storage.postgres_cluster import cluster_store
from tests.support.acls import acl
from tests.support.postgres import PostgresServer
from tests.support.shared_catalogue import (
    CatalogueNode,
    JournaledStore,
    SharedCatalogue,
    put,
)

SHA_256 = "SCRAM-SHA-256"
KEPT = 4
"""Versions that the journal remembers."""

NewStore = Callable[[], Awaitable[JournaledStore]]


@pytest.fixture(params=["memory", "postgres"])
async def new_store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[NewStore]:
    """Makes stores of nodes of one cluster."""
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            shared = await SharedCatalogue(KEPT).started()

            async def in_memory() -> JournaledStore:
                return shared.node()

            yield in_memory
            return
        monkeypatch.setattr(postgres_cluster, "CHANGES_KEPT", KEPT)
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.emptied_database())

        async def on_postgres() -> JournaledStore:
            store = cluster_store(url)
            await store.start()
            stack.push_async_callback(store.close)
            return store

        yield on_postgres


@pytest.fixture
async def nodes(new_store: NewStore) -> list[CatalogueNode]:
    return [await CatalogueNode(await new_store(), number).start() for number in (1, 2)]


def upsert(user: str) -> AlterUserScramCredentialsRequest:
    upsertion = ScramUpsertion(user, 1, 4096, Secret(b"salt"), Secret(bytes(32)))
    return AlterUserScramCredentialsRequest((), (upsertion,))


def quota(user: str, rate: float | None) -> AlterClientQuotasRequest:
    operation = QuotaOperation("producer_byte_rate", rate or 0, remove=rate is None)
    return AlterClientQuotasRequest((QuotaAlteration((("user", user),), (operation,)),))


async def test_topics(nodes: list[CatalogueNode]) -> None:
    a, b = nodes
    kept = await a.topics.create("kept", 1, {"retention.ms": "5"})
    gone = await a.topics.create("gone", 2, {})
    assert b.topics.topic("kept") is None
    await b.catch_up()
    assert [b.topics.topic("kept"), b.topics.topic_by_id(gone.topic_id)] == [kept, gone]
    assert b.topics.image.version == a.topics.image.version == a.changes.applied == 2
    assert b.topics.image.created_version == a.topics.image.created_version
    await b.topics.grow(kept.topic_id, 3)
    await b.topics.change_configs(kept.topic_id, lambda configs: {})
    await b.topics.delete(gone.topic_id)
    again = await b.topics.create("gone", 1, {})
    await a.catch_up()
    assert a.topics.topic("kept") == b.topics.topic("kept")
    assert a.topics.topic_by_id(gone.topic_id) is None
    assert a.topics.topic("gone") == again
    assert a.topics.topics() == b.topics.topics()
    # The listeners are told as if it had happened there.
    (delta,) = a.deltas[2:]
    assert (delta.created, delta.changed) == ({"gone"}, {"kept"})
    assert delta.deleted == (("gone", gone.topic_id),)
    assert (delta.image.version, a.changes.applied, b.changes.applied) == (6, 6, 6)


async def test_configs(nodes: list[CatalogueNode]) -> None:
    a, b = nodes
    values: list[str] = []
    b.brokers.follow(lambda now: values.append(now["message.max.bytes"]))
    timeouts = {"consumer_session_timeout_ms": "50000", "consumer_heartbeat_interval_ms": "6000"}
    await a.groups.alter(put(RESOURCE_GROUP, "g", **timeouts), validate_only=False)
    everywhere = put(RESOURCE_BROKER, "", message_max_bytes="5000")
    await a.brokers.alter(everywhere, validate_only=False)
    metrics = put(RESOURCE_CLIENT_METRICS, "m", interval_ms="500")
    await a.metrics.alter(metrics, validate_only=False)
    # Several keys of one resource are one change.
    assert a.changes.applied == 3
    await b.catch_up()
    assert b.told == [("g", a.groups.of("g"))]
    assert b.groups.of("g").keys() == {name.replace("_", ".") for name in timeouts}
    assert b.brokers.config.message_max_bytes == 5000
    assert values[-1] == "5000"
    assert [found.interval_ms for found in b.metrics.matching({})] == [500]
    removed = dict.fromkeys(timeouts)
    await b.groups.alter(put(RESOURCE_GROUP, "g", **removed), validate_only=False)
    await a.catch_up()
    assert a.told[-1] == ("g", {})
    assert a.groups.names() == []


async def test_security(nodes: list[CatalogueNode]) -> None:
    a, b = nodes
    alice = b.security.access("User:alice", "/10.0.0.1")
    assert not alice.sees(Operation.READ, Resource.TOPIC, "foo")
    told: list[str] = []
    b.security.quotas.add_listener(lambda: told.append("quotas"))
    await a.ask(CreateAclsRequest((acl("ALLOW alice READ topic foo"),)))
    await a.ask(upsert("alice"))
    await a.ask(quota("alice", 5.0))
    await b.catch_up()
    assert alice.sees(Operation.READ, Resource.TOPIC, "foo")
    credential = b.security.users.credential("alice", SHA_256)
    assert credential == a.security.users.credential("alice", SHA_256) is not None
    assert b.security.quotas.active
    assert b.security.quotas.entries == a.security.quotas.entries != {}
    assert told == ["quotas"]
    await b.ask(DeleteAclsRequest((AclFilter(),)))
    deletion = ScramDeletion("alice", 1)
    await b.ask(AlterUserScramCredentialsRequest((deletion,), ()))
    await b.ask(quota("alice", None))
    allowed = a.security.access("User:alice", "/10.0.0.1")
    assert allowed.sees(Operation.READ, Resource.TOPIC, "foo")
    await a.catch_up()
    assert not allowed.sees(Operation.READ, Resource.TOPIC, "foo")
    assert a.security.users.names() == []
    assert not a.security.quotas.active


async def test_a_node_that_is_too_far_behind_reads_everything(nodes: list[CatalogueNode]) -> None:
    a, b = nodes
    gone = await b.topics.create("gone", 1, {})
    await b.ask(upsert("bob"))
    await b.ask(quota("bob", 5.0))
    await b.ask(CreateAclsRequest((acl("ALLOW bob READ topic foo"),)))
    await b.groups.alter(
        put(RESOURCE_GROUP, "g", consumer_session_timeout_ms="50000"), validate_only=False
    )
    await a.catch_up()
    await a.topics.delete(gone.topic_id)
    await a.ask(AlterUserScramCredentialsRequest((ScramDeletion("bob", 1),), ()))
    await a.ask(quota("bob", None))
    await a.ask(DeleteAclsRequest((AclFilter(),)))
    removed = put(RESOURCE_GROUP, "g", consumer_session_timeout_ms=None)
    await a.groups.alter(removed, validate_only=False)
    assert not (await b.store.journal.changes()).complete
    await b.catch_up()
    assert b.topics.topic("gone") is None
    assert b.security.users.names() == []
    assert not b.security.quotas.active
    bob = b.security.access("User:bob", "/10.0.0.1")
    assert not bob.sees(Operation.READ, Resource.TOPIC, "foo")
    assert b.told[-1] == ("g", {})
    assert b.changes.applied == a.changes.applied


async def test_of_two_nodes_one_makes_a_topic(nodes: list[CatalogueNode]) -> None:
    made = await asyncio.gather(
        *(one.topics.create("t", 1, {}) for one in nodes), return_exceptions=True
    )
    (refused,) = [one for one in made if isinstance(one, ApiError)]
    assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
    for one in nodes:
        await one.catch_up()
    assert nodes[0].topics.topic("t") == nodes[1].topics.topic("t") is not None


async def test_all_changes_at_once_are_made(nodes: list[CatalogueNode]) -> None:
    await asyncio.gather(
        *(one.topics.create(f"t{n}", 1, {}) for n, one in enumerate(nodes * 2)),
        *(one.ask(upsert(f"u{n}")) for n, one in enumerate(nodes * 2)),
    )
    for one in nodes:
        await one.catch_up()
        assert sorted(one.security.users.names()) == ["u0", "u1", "u2", "u3"]
        assert {f"t{n}" for n in range(4)} <= one.topics.image.by_name.keys()
    assert nodes[0].changes.applied == nodes[1].changes.applied == 8


async def test_first_nodes_agree(new_store: NewStore) -> None:
    stores = [await new_store() for _ in range(2)]
    changes = [CatalogueChanges(one.journal) for one in stores]
    secrets = await asyncio.gather(*map(salt_secret, stores, changes))
    assert secrets[0] == secrets[1]
    config = CoordinatorConfig()
    both = zip(stores, changes, strict=True)
    await asyncio.gather(*(fix_shard_count(store, config, of) for store, of in both))
    other = CoordinatorConfig(offsets_topic_num_partitions=7)
    with pytest.raises(ConfigError, match="the store was made with 50"):
        await fix_shard_count(stores[1], other, changes[1])


async def test_what_a_cancelled_request_has_written_is_read(
    nodes: list[CatalogueNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes
    put_topic, written = a.store.put_topic, asyncio.Event()

    async def never_answered(*arguments: object) -> None:
        await put_topic(*arguments)  # type: ignore[arg-type]
        written.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(a.store, "put_topic", never_answered)
    task = asyncio.create_task(a.topics.create("t", 1, {}))
    await written.wait()
    task.cancel()
    await asyncio.wait([task])
    # The change is there, but not in memory.
    assert (a.changes.applied, a.topics.topic("t")) == (0, None)
    await a.catch_up()
    assert (a.changes.applied, a.topics.image.version) == (1, 1)
    await b.catch_up()
    assert a.topics.topic("t") == b.topics.topic("t") is not None
