"""The store of all nodes: what survives their crashes. Every call of a node is a transaction of the
simulated database, so requests and answers may be late or lost."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from groupd.storage.cluster import CatalogueChangesSince
from groupd.storage.log import Append, LogFenced, LogState, LogUnavailable, LogUncertain
from groupd.storage.memory import MemoryStore
from groupd.storage.units import OwnedUnit
from tests.simulator.cluster.database import Database, Session


class NoChanges:
    """The journal of a catalogue that never changes."""

    applied = written = 0

    def __init__(self, timeline: str) -> None:
        self.timeline = timeline

    async def changes(self) -> CatalogueChangesSince:
        return CatalogueChangesSince(0)

    def advance(self, version: int) -> None:
        """Does nothing: there is one version."""

    def forget(self) -> None:
        """Does nothing: no change is ever lost."""


class NodeStore:
    """One node's way to `rows`; a `storage.log.Store`, and a `ClusterStore` for those who only ask
    for membership and journal."""

    def __init__(self, rows: MemoryStore, database: Database, session: Session) -> None:
        self.membership = session
        self.journal = NoChanges(str(database.tables.timeline))
        self._rows = rows
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
        try:
            await self._session.call(lambda database: _now(self._rows.append(batches)))
        except LogUnavailable as error:
            raise LogUncertain(str(error)) from error

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        await self._session.call(lambda database: _now(self._rows.delete(names)))


def _now(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a transaction waits")
