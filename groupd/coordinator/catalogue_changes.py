"""All changes of topics, configs, users, ACLs and quotas in this process, one at a time (ADR 40).

Each part of the catalogue is in the memory of its *keeper*. A change looks at memory, writes the
store in one call, and then changes memory. In a cluster the store accepts the write only if this
node has seen all changes of the other nodes. A change that comes too late is made again on top of
theirs. After a write with an unknown outcome everything is read again before the next change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from groupd.protocol.errors import ApiError
from groupd.storage.cluster import CatalogueBehind, CatalogueChangesSince, CatalogueJournal
from groupd.storage.log import LogUnavailable

T = TypeVar("T")

ATTEMPTS_MAX = 10
"""How often a change is tried when other nodes are faster."""

JournalKey = tuple[str, str]
"""Names a part of the catalogue by the kind of its journal entries, and for configs the type of the
resource, for security the kind of entry."""

TOPICS: JournalKey = ("topic", "")


def configs_of(resource_type: int) -> JournalKey:
    return ("config", str(resource_type))


def security_of(kind: str) -> JournalKey:
    return ("security", kind)


class CatalogueCache(Protocol):
    """Holds a part of the catalogue in memory. Both methods notify listeners of differences, as if
    the change had been made here. They may be called again for entries that are known already. They
    raise LogError."""

    async def read_all(self) -> None:
        """Read everything from the store."""
        ...

    async def read(self, names: Sequence[str]) -> None:
        """Read some entries: the hex digits of a topic's id, the name of a resource, or the key of
        a security entry."""
        ...


class NoJournal:
    """The journal of a store that only one process uses."""

    applied = written = 0

    async def changes(self) -> CatalogueChangesSince:
        return CatalogueChangesSince(0)

    def advance(self, version: int) -> None: ...

    def forget(self) -> None: ...


async def _alone(version: int) -> None:
    """Returns at once: there is no other node to wait for."""


class CatalogueChanges:
    """The catalogue of this node. If there is a `journal`, it follows the catalogue of the cluster.
    Other parts register with `follow`."""

    def __init__(self, journal: CatalogueJournal | None = None) -> None:
        self.spread: Callable[[int], Awaitable[None]] = _alone
        """Waits until all other nodes work with a version. The cluster replaces it."""
        self.on_forget: list[Callable[[], None]] = []
        """Called by `forget`, for other data in memory that the store may have lost."""
        self._journal = journal or NoJournal()
        self._counted = journal is not None
        self._keepers: dict[JournalKey, CatalogueCache] = {}
        self._lock = asyncio.Lock()
        self._stale = False
        self._forgotten = 0
        self._reading: int | None = None

    def follow(self, place: JournalKey, keeper: CatalogueCache) -> None:
        """Register `keeper` as the holder of the part `place`."""
        self._keepers[place] = keeper

    @property
    def applied(self) -> int:
        """The version that this node works with; -1: none, so everything must be read first."""
        return self._journal.applied

    @property
    def made(self) -> int:
        """The newest version that this node has made itself. It stays 0 without a cluster."""
        return self._journal.written

    @property
    def version(self) -> int | None:
        """The version of the catalogue in memory after the change that is being applied. All nodes
        of a cluster use the same numbers. None without a cluster."""
        if not self._counted:
            return None
        if self._reading is not None:
            return self._reading
        return max(self._journal.applied, self._journal.written)

    async def make(self, change: Callable[[], Awaitable[T]]) -> T:
        """Call `change()`, which writes the store at most once. Nothing else changes or reads the
        catalogue meanwhile. It is called again if another node was faster, so it must have no
        effect before the write that succeeds. Raises LogError, and what `change` raises."""
        async with self._lock:
            for _ in range(ATTEMPTS_MAX):
                if self._stale:
                    await self._catch_up()
                forgotten = self._forgotten
                try:
                    result = await change()
                except CatalogueBehind:
                    await self._catch_up()
                except ApiError:
                    raise
                except BaseException:
                    # Also after a cancellation: memory and store may differ now.
                    self._stale = True
                    raise
                else:
                    if self._forgotten == forgotten:
                        self._journal.advance(self._journal.written)
                    return result
        raise LogUnavailable("other nodes change the catalogue all the time")

    async def catch_up(self) -> None:
        """Read the changes of other nodes. Raises LogError."""
        async with self._lock:
            await self._catch_up()

    def forget(self) -> None:
        """The store may have lost changes, or have different ones now. Everything is read again
        before this node works with any version."""
        self._stale = True
        self._forgotten += 1
        self._journal.forget()
        for forget in self.on_forget:
            forget()

    async def _catch_up(self) -> None:
        forgotten = self._forgotten
        changes = await self._journal.changes()
        self._reading = changes.version
        try:
            if self._stale or not changes.complete:
                for keeper in dict.fromkeys(self._keepers.values()):
                    await keeper.read_all()
            else:
                await self._read(changes.entries)
        finally:
            self._reading = None
        if self._forgotten == forgotten:
            self._stale = False
            self._journal.advance(changes.version)

    async def _read(self, entries: Iterable[tuple[str, str]]) -> None:
        found: dict[JournalKey, dict[str, None]] = {}
        for kind, key in entries:
            place, name = _where(kind, key)
            found.setdefault(place, {})[name] = None
        for place, names in found.items():
            keeper = self._keepers.get(place)
            if keeper is not None:
                await keeper.read(list(names))


def _where(kind: str, key: str) -> tuple[JournalKey, str]:
    """The part of the catalogue that a journal entry belongs to, and the entry's name in it."""
    if kind == TOPICS[0]:
        return TOPICS, key
    which, name = msgspec.json.decode(key)[:2]
    return (kind, str(which)), name
