"""Several nodes over one catalogue in memory, with the journal of a cluster, and what each node has
of the catalogue."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.data_routes import plain, spreading
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.security.security import Security
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.group_overrides import GroupOverrides
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.telemetry import ClientMetrics
from groupd.protocol.messages.topics import AlterConfig, AlterResource
from groupd.storage.cluster import CatalogueBehind, CatalogueChangesSince, CatalogueJournal
from groupd.storage.log import (
    Catalogue,
    ConfigEntry,
    LogUnavailable,
    MadePartitions,
    SecurityEntry,
    StoredTopic,
)
from groupd.storage.memory import MemoryStore

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}

_ids = itertools.count(1)


class SharedCatalogue:
    """The database: rows, and the entries of each version. `kept`: versions that are remembered."""

    def __init__(self, kept: int = 100) -> None:
        self.rows = MemoryStore()
        self.entries: list[list[tuple[str, str]]] = []
        self.kept = kept

    async def started(self) -> SharedCatalogue:
        await self.rows.start()
        return self

    def changes(self, applied: int) -> CatalogueChangesSince:
        version = len(self.entries)
        if not version - self.kept <= applied <= version:
            return CatalogueChangesSince(version, (), complete=False)
        return CatalogueChangesSince(version, tuple(itertools.chain(*self.entries[applied:])))

    def node(self) -> NodeStore:
        return NodeStore(self)


class NodeStore(MemoryStore):
    """What one node sees of it: its `Catalogue` and its journal."""

    def __init__(self, shared: SharedCatalogue) -> None:
        super().__init__()
        self.applied = self.written = len(shared.entries)
        self.writes = 0
        self.lost_answers = 0
        """So many writes fail although they are done."""
        self.committed: asyncio.Event | None = None
        """If there is one, a write is answered only once it is set."""
        self._shared = shared
        self._topics = shared.rows._topics
        self._configs = shared.rows._configs
        self._security = shared.rows._security
        self._started = True

    @property
    def journal(self) -> NodeStore:
        return self

    async def changes(self) -> CatalogueChangesSince:
        await asyncio.sleep(0)
        return self._shared.changes(self.applied)

    def advance(self, version: int) -> None:
        self.applied = max(self.applied, version)

    def forget(self) -> None:
        self.applied = self.written = -1

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        entry = ("topic", topic.topic_id.hex())
        await self._change([entry], lambda: super(NodeStore, self).put_topic(topic, made))
        return topic

    async def delete_topic(self, topic_id: bytes) -> None:
        entry = ("topic", topic_id.hex())
        await self._change([entry], lambda: super(NodeStore, self).delete_topic(topic_id))

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        entries = [
            ("config", json.dumps([one.resource_type, one.name, one.key])) for one in changes
        ]
        await self._change(entries, lambda: super(NodeStore, self).put_configs(changes))

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        entries = [("security", json.dumps([one.kind, one.key])) for one in changes]
        await self._change(entries, lambda: super(NodeStore, self).change_security(changes))

    async def _change(
        self, entries: list[tuple[str, str]], write: Callable[[], Awaitable[None]]
    ) -> None:
        if not entries:
            return
        self.writes += 1
        version = max(self.applied, self.written) + 1
        await asyncio.sleep(0)
        if version != len(self._shared.entries) + 1:
            raise CatalogueBehind("another node was faster")
        await write()
        self._shared.entries.append(entries)
        if self.committed is not None:
            await self.committed.wait()
        if self.lost_answers:
            self.lost_answers -= 1
            raise LogUnavailable("the answer is lost")
        self.written = version


class JournaledStore(Catalogue, Protocol):
    @property
    def journal(self) -> CatalogueJournal: ...


class CatalogueNode:
    """One node's memory of the catalogue, and who was told what."""

    def __init__(self, store: JournaledStore, node_id: int, **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = with_settings(CoordinatorConfig(node_id=node_id), {**SETTINGS, **given})
        self.store = store
        self.changes = CatalogueChanges(store.journal)
        self.topics = TopicCatalogue(
            store, config, lambda: next(_ids).to_bytes(16, "big"), self.changes
        )
        layout = Layout(node_id, [], SingleNodeOwnership(node_id))
        self.brokers = BrokerConfigs(store, self.changes, config, layout)
        self.groups = GroupOverrides(store, self.changes, self.brokers)
        self.metrics = ClientMetrics(store, self.changes)
        self.security = Security(config, store, _turn, lambda: 0, self.changes)
        self.deltas: list[MetadataDelta] = []
        self.told: list[tuple[str, Mapping[str, str]]] = []
        self.topics.add_listener(self.deltas.append)
        self.groups.add_listener(lambda *change: self.told.append(change))
        self._routes = spreading(plain(self.security.handlers), self.changes)

    async def start(self) -> CatalogueNode:
        await self.topics.load()
        await self.brokers.load()
        await self.groups.load()
        await self.metrics.load()
        await self.security.load()
        self.deltas.clear()
        return self

    async def catch_up(self) -> None:
        await self.changes.catch_up()

    async def ask(self, request: Any) -> Any:
        access = self.security.access("User:admin", "/10.0.0.1")
        context = RequestContext(None, 3, client_host="/10.0.0.1", access=access)
        return await self._routes[type(request)].handle(context, request)


async def _turn() -> None:
    await asyncio.sleep(0)


def put(resource_type: int, name: str, **values: str | None) -> AlterResource:
    """Sets configs, or with None goes back to their defaults."""
    changes = [
        AlterConfig(key.replace("_", "."), 1 if value is None else 0, value)
        for key, value in values.items()
    ]
    return AlterResource(resource_type, name, tuple(changes))
