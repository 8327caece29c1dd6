"""The dynamic configs of groups (resource GROUP): kept in the store, judged by the core.

Which settings exist and what they may be is decided by the two functions injected here
(`coordinator.core.group_configs`); this file stores the overrides and tells the listeners. A write
that fails half-way leaves memory stale: it is read again before the next change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from coordinator.config import CoordinatorConfig
from protocol.frozen import dataclass
from protocol.messages.topics import RESOURCE_GROUP, AlterConfig, ConfigValue
from storage.log import Catalogue, LogError

GroupConfigListener = Callable[[str, Mapping[str, str]], None]
"""(group id, its overrides now)."""


class AlterFunction(Protocol):
    def __call__(
        self,
        config: CoordinatorConfig,
        current_overrides: Mapping[str, str],
        changes: Iterable[tuple[str, int, str | None]],
        *,
        group_id: str | None = None,
    ) -> dict[str, str]:
        """The overrides after the changes. Raises ApiError."""
        ...


@dataclass(frozen=True, slots=True)
class GroupConfigFunctions:
    """`describe(config, overrides)`: all settings of a group, effective."""

    describe: Callable[[CoordinatorConfig, Mapping[str, str] | None], Sequence[ConfigValue]]
    alter: AlterFunction


class GroupOverrides:
    """Overrides by group id."""

    def __init__(
        self, store: Catalogue, config: CoordinatorConfig, functions: GroupConfigFunctions
    ) -> None:
        self._store = store
        self._config = config
        self._functions = functions
        self._lock = asyncio.Lock()
        self._stale = False
        self._listeners: list[GroupConfigListener] = []
        self._overrides: dict[str, dict[str, str]] = {}

    async def load(self) -> None:
        """Read the store and tell the listeners what differs. Raises LogError."""
        before = self._overrides
        now: dict[str, dict[str, str]] = {}
        for resource_type, name, key, value in await self._store.configs():
            if resource_type == RESOURCE_GROUP:
                now.setdefault(name, {})[key] = value
        self._overrides = now
        self._stale = False
        for group in sorted(before.keys() | now.keys()):
            if before.get(group, {}) != now.get(group, {}):
                self._tell(group)

    def add_listener(self, listener: GroupConfigListener) -> None:
        self._listeners.append(listener)

    def all(self) -> dict[str, dict[str, str]]:
        """A copy of everything, for shards that load."""
        return {group: dict(overrides) for group, overrides in self._overrides.items()}

    def describe(self, group: str) -> Sequence[ConfigValue]:
        return self._functions.describe(self._config, self._overrides.get(group))

    async def alter(
        self, group: str, changes: Sequence[AlterConfig], *, validate_only: bool
    ) -> None:
        """Raises ApiError (nothing changed), LogError."""
        async with self._lock:
            if self._stale:
                await self.load()
            current = self._overrides.get(group, {})
            wanted = self._functions.alter(
                self._config,
                current,
                [(change.name, change.operation, change.value) for change in changes],
                group_id=group,
            )
            if validate_only:
                return
            await self._write(group, current, wanted)
            if wanted:
                self._overrides[group] = wanted
            else:
                self._overrides.pop(group, None)
            self._tell(group)

    async def _write(
        self, group: str, current: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        try:
            for key in sorted(current.keys() | wanted.keys()):
                if current.get(key) != wanted.get(key):
                    await self._store.put_config(RESOURCE_GROUP, group, key, wanted.get(key))
        except (LogError, asyncio.CancelledError):
            self._stale = True
            raise

    def _tell(self, group: str) -> None:
        overrides = dict(self._overrides.get(group, {}))
        for listener in self._listeners:
            listener(group, overrides)
