"""Configs that clients have set on resources of one type, in memory over the store. One change at a
time, see `coordinator.catalogue_changes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from groupd.coordinator.catalogue_changes import CatalogueChanges, configs_of
from groupd.coordinator.config.keys import WantedKeys
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterResource, ConfigValue
from groupd.storage.log import Catalogue, ConfigEntry

OverridesListener = Callable[[str, Mapping[str, str]], None]
"""Called with the name of a resource and its present overrides."""


NAME_MAX = 1000
"""The largest length of a resource's name in characters, so that all names together stay small."""


class ConfigOverrides(ABC):
    """Overrides by resource name.

    Rows of the store whose key `accepts(key)` rejects are ignored. `most`: how many resources may
    have overrides; `kind`: what they are called in an error. A subclass defines which changes are
    allowed (`check_altered`, `altered`), and how a resource is described.
    """

    def __init__(
        self,
        store: Catalogue,
        changes: CatalogueChanges,
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
        self._changes = changes
        self._listeners: list[OverridesListener] = []
        self._overrides: dict[str, dict[str, str]] = {}
        changes.follow(configs_of(resource_type), self)

    async def load(self) -> None:
        """Read the store, and notify the listeners of differences. Raises LogError."""
        await self._changes.make(self.read_all)

    async def read_all(self) -> None:
        """See `catalogue_changes.CatalogueCache`."""
        now = self._by_name(await self._store.configs())
        self._replace(now, now.keys() | self._overrides.keys())

    async def read(self, names: Sequence[str]) -> None:
        rows = await self._store.configs_of(self._resource_type, names)
        self._replace(self._by_name(rows), names)

    def _by_name(self, rows: Iterable[tuple[int, str, str, str]]) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for resource_type, name, key, value in rows:
            if resource_type == self._resource_type and self._accepts(key):
                found.setdefault(name, {})[key] = value
        return found

    def _replace(self, now: Mapping[str, dict[str, str]], names: Iterable[str]) -> None:
        """Set the overrides of `names` to those in `now`, and notify the listeners of
        differences."""
        different = [name for name in sorted(names) if self.of(name) != now.get(name, {})]
        for name in different:
            self._set(name, now.get(name, {}))
        for name in different:
            self._tell(name)

    def _set(self, name: str, overrides: dict[str, str]) -> None:
        if overrides:
            self._overrides[name] = overrides
        else:
            self._overrides.pop(name, None)

    def add_listener(self, listener: OverridesListener) -> None:
        self._listeners.append(listener)

    def all(self) -> dict[str, dict[str, str]]:
        """A copy of all overrides, by resource name."""
        return {name: dict(overrides) for name, overrides in self._overrides.items()}

    def of(self, name: str) -> Mapping[str, str]:
        return self._overrides.get(name, {})

    def names(self) -> list[str]:
        """The names of the resources that have overrides, sorted."""
        return sorted(self._overrides)

    @abstractmethod
    def describe(self, name: str, wanted: WantedKeys) -> Sequence[ConfigValue]:
        """The wanted configs of a resource. Raises ApiError."""

    @abstractmethod
    def check_altered(self, name: str) -> None:
        """Raises ApiError if no resource of this name may have overrides."""

    @abstractmethod
    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        """The overrides after the requested changes. Raises ApiError."""

    async def alter(self, asked: AlterResource, *, validate_only: bool) -> None:
        """Apply all changes of the request, or none. Raises ApiError, after which nothing has
        changed, and LogError."""
        name = asked.name
        self.check_altered(name)
        if len(name) > NAME_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A name of {len(name)} characters; at most {NAME_MAX} are allowed.",
            )

        async def change() -> None:
            current = self.of(name)
            wanted = self.altered(asked, current)
            if wanted and not current and len(self._overrides) >= self._most:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"The limit of {self._most} {self._kind} is reached.",
                )
            if validate_only:
                return
            different = [
                ConfigEntry(self._resource_type, name, key, wanted.get(key))
                for key in sorted(current.keys() | wanted.keys())
                if current.get(key) != wanted.get(key)
            ]
            await self._store.put_configs(different)
            self._set(name, wanted)
            self._tell(name)

        await self._changes.make(change)

    def _tell(self, name: str) -> None:
        overrides = dict(self.of(name))
        for listener in self._listeners:
            listener(name, overrides)
