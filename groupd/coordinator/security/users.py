"""The users that log in with SCRAM: in memory over the store (`docs/spec/security.md#2.4`).

A change counts from the next login on. Connections that are open stay open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from groupd.coordinator.catalogue_changes import CatalogueChanges, security_of
from groupd.coordinator.core.slices import Pace, Turn
from groupd.coordinator.security.scram_credentials import (
    ITERATIONS_DEFAULT,
    MECHANISMS,
    ScramCredential,
    from_text,
)
from groupd.storage.log import Catalogue, LogCorrupt, SecurityEntry

KIND = "scram"

USER_WEIGHT = 4
"""Work on one user, in items of `Pace`."""

T = TypeVar("T")
Changes = Mapping[tuple[str, str], ScramCredential | None]
"""(user, name of the mechanism) -> new credential; None removes it."""


class Users:
    """`most`: how many users there may be. `turn`: waits for the next turn of long work."""

    def __init__(self, store: Catalogue, changes: CatalogueChanges, most: int, turn: Turn) -> None:
        self._store = store
        self._changes = changes
        self._most = most
        self._turn = turn
        self._users: dict[str, Mapping[str, ScramCredential]] = {}
        """Name -> name of the mechanism -> credential. The inner tables never change."""
        self._iterations = _no_iterations()
        """How many credentials have so many iterations, by name of the mechanism."""
        changes.follow(security_of(KIND), self)

    async def load(self) -> None:
        """Read the store. Raises LogError."""
        await self._changes.make(self.read_all)

    async def read_all(self) -> None:
        """See `catalogue_changes.Keeper`; so is `read`."""
        found: dict[str, dict[str, ScramCredential]] = {}
        iterations, pace = _no_iterations(), Pace()
        for key, value in await self._store.security_entries(KIND):
            if pace.due(USER_WEIGHT):
                await self._turn()
            user, mechanism, stored = _entry(key, value)
            found.setdefault(user, {})[mechanism] = stored
            iterations[mechanism][stored.iterations] += 1
        self._users, self._iterations = dict(found), iterations

    async def read(self, names: Sequence[str]) -> None:
        pace = Pace()
        stored = dict(await self._store.security_entries_of(KIND, names))
        for key in names:
            if pace.due(USER_WEIGHT):
                await self._turn()
            value = stored.get(key)
            if value is None:
                mechanism, _, user = key.partition(":")
                self._set(user, mechanism, None)
            else:
                self._set(*_entry(key, value))

    def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        """The user's credential, if there is one. `mechanism`: "SCRAM-SHA-256" or
        "SCRAM-SHA-512"."""
        return self._users.get(user, {}).get(mechanism)

    def credentials(self, user: str) -> Mapping[str, ScramCredential]:
        """The user's credentials by name of the mechanism; empty for an unknown user."""
        return self._users.get(user, {})

    def some_iterations(self, mechanism: str, share: float) -> int:
        """See `scram.Credentials`. A change of one user changes it for few shares."""
        counts = self._iterations[mechanism]
        place = int(share * counts.total())
        for iterations in sorted(counts):
            place -= counts[iterations]
            if place < 0:
                return iterations
        return ITERATIONS_DEFAULT

    def names(self) -> list[str]:
        return list(self._users)

    @property
    def room(self) -> int:
        """How many more users there may be."""
        return self._most - len(self._users)

    async def changing(self, change: Callable[[], Awaitable[T]]) -> T:
        """The result of `change()`, which may call `change` once: see `CatalogueChanges.make`.
        Nobody else changes users meanwhile. Raises LogError, and what it raises."""
        return await self._changes.make(change)

    async def add(self, new: Changes) -> None:
        """Keep those of the credentials that are not there yet. Raises LogError."""

        async def change() -> None:
            missing = {key: one for key, one in new.items() if self.credential(*key) is None}
            if missing:
                await self.change(missing)

        await self.changing(change)

    async def change(self, changes: Changes) -> None:
        """Make all of them durable, or none. Only inside `changing`. Raises LogError."""
        pace = Pace()
        entries = []
        for (user, mechanism), new in changes.items():
            if pace.due(USER_WEIGHT):
                await self._turn()
            value = None if new is None else new.to_text()
            entries.append(SecurityEntry(KIND, _key(user, mechanism), value))
        await self._store.change_security(entries)
        for (user, mechanism), new in changes.items():
            if pace.due(USER_WEIGHT):
                await self._turn()
            self._set(user, mechanism, new)

    def _set(self, user: str, mechanism: str, new: ScramCredential | None) -> None:
        now, counts = dict(self.credentials(user)), self._iterations[mechanism]
        before = now.pop(mechanism, None)
        if before is not None:
            counts[before.iterations] -= 1
            counts += Counter()  # without those that nobody has
        if new is not None:
            now[mechanism] = new
            counts[new.iterations] += 1
        if now:
            self._users[user] = now
        else:
            self._users.pop(user, None)


def _no_iterations() -> dict[str, Counter[int]]:
    return {name: Counter() for name in MECHANISMS}


def _key(user: str, mechanism: str) -> str:
    return f"{mechanism}:{user}"


def _entry(key: str, value: str) -> tuple[str, str, ScramCredential]:
    """(user, mechanism, credential). Raises LogCorrupt."""
    mechanism, _, user = key.partition(":")
    try:
        if mechanism not in MECHANISMS:
            raise ValueError(f"unknown mechanism {mechanism}")
        return user, mechanism, from_text(value)
    except ValueError as error:
        raise LogCorrupt(f"the credential of user {user!r}: {error}") from None
