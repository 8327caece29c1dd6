"""The store of all nodes: what survives their crashes. Every call of a node is a transaction of the
simulated database, so requests and answers may be late or lost."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import chain
from typing import Any, TypeVar

from msgspec import json
from msgspec.structs import replace

from groupd.storage.cluster import EPOCH_STEP, CatalogueBehind, CatalogueChangesSince
from groupd.storage.log import (
    Append,
    ConfigEntry,
    LogFenced,
    LogState,
    LogUnavailable,
    LogUncertain,
    MadePartitions,
    StoredTopic,
)
from groupd.storage.memory import MemoryStore
from groupd.storage.units import OwnedUnit
from tests.simulator.cluster.database import Database, Session, UnitRow

T = TypeVar("T")

Entry = tuple[str, str]


class SharedStore:
    """What all nodes have in common. `alone`: there is only one node, and no cluster. `changes`:
    for each version of the catalogue the entries that have changed. `appended(batch)` is called for
    each batch that was appended."""

    def __init__(
        self, database: Database, appended: Callable[[Append], None], *, alone: bool
    ) -> None:
        self.rows = MemoryStore("simulated")
        self.rows._started = True
        self.database = database
        self.alone = alone
        self.changes: list[tuple[Entry, ...]] = []
        self.names: dict[bytes, str] = {}
        """The names of all topics that ever were, by id."""
        self.appended = appended

    def end_of(self, name: str) -> tuple[int, int]:
        """The start offset and the next offset of a log."""
        log = self.rows._logs.get(name)
        return (0, 0) if log is None else (log.start_offset, log.next_offset)

    def topics(self) -> list[StoredTopic]:
        """All topics, sorted by name."""
        return sorted(self.rows._topics.values(), key=lambda topic: topic.name)

    def put_topic(self, topic: StoredTopic) -> None:
        self.rows.restore_topic(topic)
        self.names[topic.topic_id] = topic.name

    def is_deleted(self, topic_id: bytes) -> bool:
        return topic_id not in self.rows._topics

    def is_about_deleted(self, error: str) -> bool:
        """Whether an error is about the log of a deleted topic: it may be gone while it is read."""
        return any(self.is_deleted(one) and one.hex() in error for one in self.names)


class Journal:
    """A node's `storage.cluster.CatalogueJournal`."""

    def __init__(self, shared: SharedStore, session: Session) -> None:
        self.timeline = str(shared.database.tables.timeline)
        self.applied = self.written = len(shared.changes)
        self._changes = shared.changes
        self._session = session

    async def changes(self) -> CatalogueChangesSince:
        def work(database: Database) -> CatalogueChangesSince:
            since = chain.from_iterable(self._changes[max(0, self.applied) :])
            return CatalogueChangesSince(len(self._changes), tuple(since), self.applied >= 0)

        return await self._session.call(work)

    def advance(self, version: int) -> None:
        self.applied = max(self.applied, version)

    def forget(self) -> None:
        self.applied = self.written = -1


class NodeStore:
    """One node's way to `shared`; a `storage.log.Store`, and a `ClusterStore` for those who only
    ask for membership and journal."""

    def __init__(self, shared: SharedStore, session: Session) -> None:
        self.membership = session
        self.journal = Journal(shared, session)
        self._shared = shared
        self._rows = shared.rows
        self._session = session

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._rows, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            return await self._session.call(lambda database: _now(method(*arguments, **options)))

        return call

    async def start(self) -> None:
        """Does nothing: the database is there."""

    async def close(self) -> None:
        """Does nothing: the database stays."""

    # Logs

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        return (await self.open_many([name], owned))[name]

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        def work(database: Database) -> dict[str, LogState]:
            is_member = self._session.incarnation > 0
            if is_member and owned is not None and not self._session.owns(database, owned):
                raise LogFenced(names)
            opened: dict[str, LogState] = _now(self._rows.open_many(names))
            return opened

        return await self._session.call(work)

    async def append(self, batches: Sequence[Append]) -> None:
        def work(database: Database) -> None:
            _now(self._rows.append(batches))
            for batch in batches:
                self._shared.appended(batch)

        try:
            await self._session.call(work)
        except LogUnavailable as error:
            raise LogUncertain(str(error)) from error

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        await self._session.call(lambda database: _now(self._rows.delete(names)))

    # The catalogue

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        def work(database: Database) -> StoredTopic:
            stored = topic
            if made is not None and self._session.incarnation:
                units = [database.tables.units.get(unit, UnitRow()) for unit in made.units]
                epochs = tuple(
                    one.epoch + (EPOCH_STEP if one.owner is None else 0) for one in units
                )
                stored = replace(topic, first_epochs=(*topic.first_epochs, (made.first, epochs)))
            self._shared.put_topic(stored)
            return stored

        return await self._change(work, ("topic", topic.topic_id.hex()))

    async def delete_topic(self, topic_id: bytes) -> None:
        await self._change(
            lambda database: _now(self._rows.delete_topic(topic_id)), ("topic", topic_id.hex())
        )

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        keys = [json.encode([one.resource_type, one.name, one.key]) for one in changes]
        await self._change(
            lambda database: _now(self._rows.put_configs(changes)),
            *[("config", key.decode()) for key in keys],
        )

    async def _change(self, work: Callable[[Database], T], *entries: Entry) -> T:
        """Make the next version of the catalogue."""
        journal, changes = self.journal, self._shared.changes
        version = max(journal.applied, journal.written) + 1

        def change(database: Database) -> T:
            if self._session.incarnation:
                database.member(self._session.node_id, self._session.incarnation)
            if not self._shared.alone and len(changes) != version - 1:
                raise CatalogueBehind(f"version {len(changes)}, not {version - 1}")
            result = work(database)
            changes.append(entries)
            database.tables.catalogue = len(changes)
            return result

        result = await self._session.call(change)
        journal.written = version
        return result


def _now(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a transaction waits")
