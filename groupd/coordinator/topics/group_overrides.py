"""The configs that clients have set on groups (resource GROUP). The group types and
`coordinator.core.group_configs` define the keys and their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.keys import WantedKeys, changes_to
from groupd.coordinator.config.values import SOURCE_DEFAULT, SOURCE_GROUP
from groupd.coordinator.core.group_configs import check_altered
from groupd.coordinator.core.group_types import group_configs
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.overrides import ConfigOverrides
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_GROUP,
    AlterResource,
    ConfigSynonym,
    ConfigValue,
)
from groupd.storage.log import Catalogue


class GroupOverrides(ConfigOverrides):
    """Overrides by group id. The group need not exist."""

    def __init__(self, store: Catalogue, changes: CatalogueChanges, broker: BrokerConfigs) -> None:
        super().__init__(
            store,
            changes,
            RESOURCE_GROUP,
            lambda key: True,
            broker.config.max_group_configs,
            "groups with configs",
        )
        self._broker = broker
        self._configs = group_configs()

    def describe(self, name: str, wanted: WantedKeys) -> Sequence[ConfigValue]:
        """The effective values of the wanted keys, and where they come from."""
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        overrides = self.of(name)
        return [
            self._with_synonyms(value, value.name in overrides)
            for value in self._configs.describe(self._broker.config, overrides)
            if wanted is None or value.name in wanted
        ]

    def _with_synonyms(self, value: ConfigValue, own: bool) -> ConfigValue:
        key = self._configs.keys[value.name]
        synonyms = (
            (ConfigSynonym(key.name, key.default, SOURCE_DEFAULT),)
            if key.broker_key is None
            else self._broker.synonyms(key.broker_key)
        )
        if own:
            synonyms = (ConfigSynonym(value.name, value.value, SOURCE_GROUP), *synonyms)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        return replace(value, source=source, is_default=not own, synonyms=synonyms)

    def check_altered(self, name: str) -> None:
        check_altered(name)

    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        return self._configs.alter(self._broker.config, current, changes_to(asked, current))
