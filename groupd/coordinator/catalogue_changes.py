"""All changes of topics, configs, users, ACLs and quotas in this process, one at a time.

A part of the catalogue is in the memory of its *keeper*. A change looks at memory, writes the store
in one call, and then changes memory. In a cluster the store takes it only if this node has seen all
changes of the others; so a change that comes too late is made anew, over what they have changed.
After a write whose outcome is unknown everything is read again before the next change. ADR 40.
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
"""How often a change is made anew because other nodes were faster."""

JournalKey = tuple[str, str]
"""The kind of entries of the journal, and which of them: the type of the resource of configs, the
kind of entries of security."""

TOPICS: JournalKey = ("topic", "")


def configs_of(resource_type: int) -> JournalKey:
    return ("config", str(resource_type))


def security_of(kind: str) -> JournalKey:
    return ("security", kind)


class Keeper(Protocol):
    """Has a part of the catalogue in memory. Both methods tell listeners what differs, as if the
    change had been made here. They may be called again for what is known already. Raise
    LogError."""

    async def read_all(self) -> None:
        """Read everything from the store."""
        ...

    async def read(self, names: Sequence[str]) -> None:
        """Read some entries: the hex digits of a topic's id, the name of a resource, the key of an
        entry of security."""
        ...


class NoJournal:
    """The journal of a store that one process has to itself."""

    applied = written = 0

    async def changes(self) -> CatalogueChangesSince:
        return CatalogueChangesSince(0)

    def advance(self, version: int) -> None: ...

    def forget(self) -> None: ...


async def _alone(version: int) -> None:
    """There is no other node to wait for."""


class CatalogueChanges:
    """The catalogue of this node, which follows that of the cluster if there is a `journal`. Other
    parts register with `follow`."""

    def __init__(self, journal: CatalogueJournal | None = None) -> None:
        self.spread: Callable[[int], Awaitable[None]] = _alone
        """Waits until all other nodes work with a version. Replaced in a cluster."""
        self.on_forget: list[Callable[[], None]] = []
        """What else is in memory that the store may have lost."""
        self._journal = journal or NoJournal()
        self._counted = journal is not None
        self._keepers: dict[JournalKey, Keeper] = {}
        self._lock = asyncio.Lock()
        self._stale = False
        self._forgotten = 0
        self._reading: int | None = None

    def follow(self, place: JournalKey, keeper: Keeper) -> None:
        """`keeper` has what is there in memory."""
        self._keepers[place] = keeper

    @property
    def applied(self) -> int:
        """The version that this node works with; -1: none, everything has to be read."""
        return self._journal.applied

    @property
    def made(self) -> int:
        """The newest version that this node has made itself. It stays 0 without a cluster."""
        return self._journal.written

    @property
    def version(self) -> int | None:
        """The version of what is being put into memory: memory then has all changes up to it. The
        nodes of a cluster count alike; None: there is no cluster."""
        if not self._counted:
            return None
        if self._reading is not None:
            return self._reading
        return max(self._journal.applied, self._journal.written)

    async def make(self, change: Callable[[], Awaitable[T]]) -> T:
        """Call `change()`, which writes the store once at most; nobody else changes or reads the
        catalogue meanwhile. It is called anew if another node was faster, so it does nothing
        before the write that counts. Raises LogError, and what `change` raises."""
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
                    # Cancelled, too. Memory and store may differ now.
                    self._stale = True
                    raise
                else:
                    if self._forgotten == forgotten:
                        self._journal.advance(self._journal.written)
                    return result
        raise LogUnavailable("other nodes change the catalogue all the time")

    async def catch_up(self) -> None:
        """Read what other nodes have changed. Raises LogError."""
        async with self._lock:
            await self._catch_up()

    def forget(self) -> None:
        """The store may have lost changes, or has others now. All is read again before this node
        works with any version."""
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
    """The place of an entry of the journal, and its name there."""
    if kind == TOPICS[0]:
        return TOPICS, key
    which, name = msgspec.json.decode(key)[:2]
    return (kind, str(which)), name
