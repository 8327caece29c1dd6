"""The dynamic configs of groups (resource GROUP): kept in the store, judged by the core.

Which settings exist and what they may be is decided by the functions injected here
(`coordinator.core.group_configs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.config_keys import changes_to
from groupd.coordinator.config_values import SOURCE_GROUP
from groupd.coordinator.core.group_configs import GroupSetting, alter, describe
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.overrides import Overrides
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_GROUP,
    AlterResource,
    ConfigSynonym,
    ConfigValue,
)
from groupd.storage.log import Catalogue


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


class GroupConfigFunctions(Struct, frozen=True):
    """`describe(config, overrides)`: all settings of a group, effective. `broker_keys`: setting ->
    the broker's setting that counts where the group has none."""

    describe: Callable[[CoordinatorConfig, Mapping[str, str] | None], Sequence[ConfigValue]]
    alter: AlterFunction
    broker_keys: Mapping[str, str]

    @classmethod
    def of(cls, settings: Sequence[GroupSetting]) -> GroupConfigFunctions:
        """For these settings."""
        return cls(
            partial(describe, settings),
            partial(alter, settings),
            {one.name: one.broker_key for one in settings},
        )


class GroupOverrides(Overrides):
    """Overrides by group id."""

    def __init__(
        self, store: Catalogue, broker: BrokerConfigs, functions: GroupConfigFunctions
    ) -> None:
        super().__init__(store, RESOURCE_GROUP, lambda key: True)
        self._broker = broker
        self._functions = functions

    def describe(self, group: str) -> Sequence[ConfigValue]:
        """All settings, with where their values come from. The group need not exist."""
        if not group:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        overrides = self.of(group)
        return [
            self._with_synonyms(value, value.name in overrides)
            for value in self._functions.describe(self._broker.config, overrides)
        ]

    def _with_synonyms(self, value: ConfigValue, own: bool) -> ConfigValue:
        synonyms = self._broker.synonyms(self._functions.broker_keys[value.name])
        if own:
            synonyms = (ConfigSynonym(value.name, value.value, SOURCE_GROUP), *synonyms)
        source = synonyms[0].source
        return replace(value, source=source, is_default=not own, synonyms=synonyms)

    def check_altered(self, name: str) -> None:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")

    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        changes = changes_to(asked, current)
        triples = [(change.name, change.operation, change.value) for change in changes]
        return self._functions.alter(self._broker.config, current, triples, group_id=asked.name)
