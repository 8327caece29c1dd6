"""Configs that clients have set on resources of one kind: in memory over the store.

One change at a time; a write that fails half-way leaves memory stale, and the store is read again
before the next change.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from groupd.coordinator.config_keys import Wanted
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterResource, ConfigValue
from groupd.storage.log import Catalogue, LogError

OverridesListener = Callable[[str, Mapping[str, str]], None]
"""(name of the resource, its overrides now)."""


NAME_MAX = 1000
"""Characters of the name of a resource: a table of them stays small."""


class Overrides(ABC):
    """Overrides by resource name. Keys in the store that `accepts(key)` denies are something else.
    `most`: how many resources may have some; `kind`: what they are called in an error.

    A subclass says what may be altered (`check_altered`, `altered`), and how it is described.
    """

    def __init__(
        self,
        store: Catalogue,
        resource_type: int,
        accepts: Callable[[str], bool],
        most: int,
        kind: str,
    ) -> None:
        self._store = store
        self._resource_type = resource_type
        self._accepts = accepts
        self._most = most
        self._kind = kind
        self._lock = asyncio.Lock()
        self._stale = False
        self._listeners: list[OverridesListener] = []
        self._overrides: dict[str, dict[str, str]] = {}

    async def load(self) -> None:
        """Read the store and tell the listeners what differs. Raises LogError."""
        before = self._overrides
        now: dict[str, dict[str, str]] = {}
        for resource_type, name, key, value in await self._store.configs():
            if resource_type == self._resource_type and self._accepts(key):
                now.setdefault(name, {})[key] = value
        self._overrides = now
        self._stale = False
        for name in sorted(before.keys() | now.keys()):
            if before.get(name, {}) != now.get(name, {}):
                self._tell(name)

    def add_listener(self, listener: OverridesListener) -> None:
        self._listeners.append(listener)

    def all(self) -> dict[str, dict[str, str]]:
        """A copy of everything."""
        return {name: dict(overrides) for name, overrides in self._overrides.items()}

    def of(self, name: str) -> Mapping[str, str]:
        return self._overrides.get(name, {})

    def names(self) -> list[str]:
        """The resources that have overrides, sorted."""
        return sorted(self._overrides)

    @abstractmethod
    def describe(self, name: str, wanted: Wanted) -> Sequence[ConfigValue]:
        """The configs of a resource that are wanted. Raises ApiError."""

    @abstractmethod
    def check_altered(self, name: str) -> None:
        """Raises ApiError if no resource of this name may have overrides."""

    @abstractmethod
    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        """The overrides after the changes that are asked for. Raises ApiError."""

    async def alter(self, asked: AlterResource, *, validate_only: bool) -> None:
        """Apply all changes of the request, or none. Raises ApiError (nothing has changed), and
        LogError."""
        name = asked.name
        self.check_altered(name)
        if len(name) > NAME_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A name of {len(name)} characters; at most {NAME_MAX} are allowed.",
            )
        async with self._lock:
            if self._stale:
                await self.load()
            current = self.of(name)
            wanted = self.altered(asked, current)
            if wanted and not current and len(self._overrides) >= self._most:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"The limit of {self._most} {self._kind} is reached.",
                )
            if validate_only:
                return
            await self._write(name, current, wanted)
            if wanted:
                self._overrides[name] = wanted
            else:
                self._overrides.pop(name, None)
            self._tell(name)

    async def _write(
        self, name: str, current: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        try:
            for key in sorted(current.keys() | wanted.keys()):
                if current.get(key) != wanted.get(key):
                    await self._store.put_config(self._resource_type, name, key, wanted.get(key))
        except (LogError, asyncio.CancelledError):
            self._stale = True
            raise

    def _tell(self, name: str) -> None:
        overrides = dict(self.of(name))
        for listener in self._listeners:
            listener(name, overrides)
