"""The broker's present settings: those it was started with, overridden by those that clients have
set. Overrides (resource BROKER of the AlterConfigs APIs) are kept in the store, for one broker or,
under the empty name, for the cluster; those of the broker win. `config` is a new object after every
change, so code that needs current values reads it at each use. Synonyms and their order are those
of Kafka's ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import dropwhile
from operator import attrgetter

import structlog

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import (
    FIELDS_BY_KEY,
    CoordinatorConfig,
    with_settings,
)
from groupd.coordinator.config.keys import DELETE, WantedKeys, changes_to
from groupd.coordinator.config.settings import ConfigError, setting_text
from groupd.coordinator.config.values import (
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_STATIC_BROKER,
)
from groupd.coordinator.topics.broker_keys import (
    DYNAMIC_CONFIGS,
    DYNAMIC_KEYS,
    FIXED_KEYS,
    INTERNAL_KEYS,
    MIN_ISR,
    BrokerKey,
    default_text,
    is_unknown,
    node_keys,
    own_key,
)
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.overrides import ConfigOverrides
from groupd.coordinator.topics.topic_configs import BROKER_KEY_UNITS, TOPIC_CONFIGS
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    AlterResource,
    ConfigSynonym,
    ConfigValue,
)
from groupd.storage.log import Catalogue

log = structlog.get_logger("groupd.configs")

_MOST = 10_000
"""The largest number of nodes that may have configs. Only existing nodes may have some."""

_UNKNOWN_MAX, _UNKNOWN_CHARS_MAX = 100, 100_000
"""How many unknown keys a node, or the cluster, may have, and how many characters their names and
values may have together."""

CLUSTER = ""
"""The resource name of the cluster-wide defaults."""


class BrokerConfigs(ConfigOverrides):
    """Overrides of single nodes, by the node's id as text, and of the cluster."""

    def __init__(
        self,
        store: Catalogue,
        changes: CatalogueChanges,
        config: CoordinatorConfig,
        layout: Layout,
    ) -> None:
        super().__init__(
            store,
            changes,
            RESOURCE_BROKER,
            lambda key: key in DYNAMIC_KEYS or is_unknown(key),
            _MOST,
            "nodes with configs",
        )
        self._static = config
        self._layout = layout
        self._own = str(config.node_id)
        self._min_isr = (MIN_ISR, setting_text(config.min_insync_replicas))
        """The value for the cluster unless clients have set another one."""
        self.config = config
        self._topic_synonyms: Mapping[str, tuple[ConfigSynonym, ...]] | None = None
        self.add_listener(lambda name, overrides: self._apply())

    def values(self) -> dict[str, str]:
        """The present values of the settings that can change."""
        return {
            key: setting_text(getattr(self.config, FIELDS_BY_KEY[key].name))
            for key in sorted(DYNAMIC_KEYS)
        }

    def follow(self, listener: Callable[[Mapping[str, str]], None]) -> None:
        """Call `listener(values)` now and after every change. It must not raise."""
        listener(self.values())
        self.add_listener(lambda name, overrides: listener(self.values()))

    def _of_cluster(self) -> Mapping[str, str]:
        return dict([self._min_isr]) | dict(self.of(CLUSTER))

    def synonyms(self, key: str) -> tuple[ConfigSynonym, ...]:
        """Where the value of a key comes from, the source that counts first. As in Kafka the list
        begins with the first source under the key's own name, so it may be empty."""
        names = [name for name, _ in BROKER_KEY_UNITS.get(key, ((key, 1),))]
        found = [
            ConfigSynonym(name, overrides[name], source)
            for overrides, source in (
                (self.of(self._own), SOURCE_DYNAMIC_BROKER),
                (self._of_cluster(), SOURCE_DYNAMIC_DEFAULT_BROKER),
            )
            for name in names
            if name in overrides
        ]
        settings = [own_key(self._static, name) for name in names if name in FIELDS_BY_KEY]
        found += [
            ConfigSynonym(setting.name, setting.value, SOURCE_STATIC_BROKER)
            for setting in settings
            if not setting.is_default
        ]
        found += [
            ConfigSynonym(setting.name, default, SOURCE_DEFAULT)
            for setting in settings
            if (default := default_text(setting.name)) is not None
        ]
        if key in FIXED_KEYS:
            found.append(ConfigSynonym(key, FIXED_KEYS[key].value, SOURCE_DEFAULT))
        return tuple(dropwhile(lambda synonym: synonym.name != key, found))

    @property
    def topic_synonyms(self) -> Mapping[str, tuple[ConfigSynonym, ...]]:
        """The present synonyms of each topic config. A change makes a new mapping."""
        if self._topic_synonyms is None:
            self._topic_synonyms = {
                key.name: () if key.broker_key is None else self.synonyms(key.broker_key)
                for key in TOPIC_CONFIGS.keys.values()
            }
        return self._topic_synonyms

    def describe(self, name: str, wanted: WantedKeys) -> list[ConfigValue]:
        """The wanted configs of a node, or those that were set for the cluster. Raises ApiError
        INVALID_REQUEST."""
        if name == CLUSTER:
            keys_set = sorted(self._of_cluster())
            return [self._cluster_default(key) for key in keys_set if _is_in(wanted, key)]
        node = self._node(name, "Broker id must be an integer, but it is: ", " or empty string")
        # All settings but `node.id` are the same on all nodes.
        config = replace(self.config, node_id=node.node_id)
        keys = {
            **FIXED_KEYS,
            **{key: own_key(config, key) for key in FIELDS_BY_KEY if _is_in(wanted, key)},
            **{key.name: key for key in node_keys(node)},
        }
        described = [
            one
            for one in (self._described(keys[key]) for key in keys if _is_in(wanted, key))
            if one.source != SOURCE_DEFAULT or one.name not in INTERNAL_KEYS
        ]
        places = (
            (self.of(str(node.node_id)), SOURCE_DYNAMIC_BROKER),
            (self.of(CLUSTER), SOURCE_DYNAMIC_DEFAULT_BROKER),
        )
        unknown = filter(is_unknown, {key for overrides, _ in places for key in overrides})
        described += [
            _unknown_key(key, *(source for overrides, source in places if key in overrides))
            for key in unknown
            if _is_in(wanted, key)
        ]
        return sorted(described, key=attrgetter("name"))

    def _described(self, key: BrokerKey) -> ConfigValue:
        synonyms: tuple[ConfigSynonym, ...]
        if key.name in DYNAMIC_KEYS:
            synonyms = self.synonyms(key.name)
            source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        else:
            source = SOURCE_DEFAULT if key.is_default else SOURCE_STATIC_BROKER
            synonyms = (ConfigSynonym(key.name, key.value, source),)
            if key.name in FIELDS_BY_KEY and not key.is_default:
                default = default_text(key.name)
                if default is not None:
                    synonyms += (ConfigSynonym(key.name, default, SOURCE_DEFAULT),)
        return ConfigValue(
            name=key.name,
            value=key.value,
            read_only=key.name not in DYNAMIC_KEYS,
            is_default=source == SOURCE_DEFAULT,
            source=source,
            sensitive=key.sensitive,
            config_type=key.config_type,
            documentation=key.documentation,
            synonyms=synonyms if key.value is not None else (),
        )

    def _cluster_default(self, key: str) -> ConfigValue:
        source = SOURCE_DYNAMIC_DEFAULT_BROKER
        if is_unknown(key):
            return _unknown_key(key, source)
        value = self._of_cluster()[key]
        synonym = ConfigSynonym(key, value, source)
        return DYNAMIC_CONFIGS.keys[key].described(value, source, (synonym,))

    def names(self) -> list[str]:
        """The ids of all nodes, as text."""
        return [str(node_id) for node_id in self._layout.broker_ids]

    def check_altered(self, name: str) -> None:
        if name == CLUSTER:
            return
        node = self._node(name, "Node id must be an integer, but it is: ", "")
        if str(node.node_id) != self._own:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._own} or empty string, but received "
                f"{node.node_id}.",
            )

    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        if asked.name == CLUSTER:
            current = self._of_cluster()
        changes = changes_to(asked, current)
        fixed = [
            change.name
            for change in changes
            if change.operation != DELETE
            and change.name not in DYNAMIC_KEYS
            and not is_unknown(change.name)
        ]
        if fixed:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
            )
        result = DYNAMIC_CONFIGS.changed(
            current,
            changes,
            lambda overrides, key: overrides.get(key) or own_key(self.config, key).value or "",
        )
        _check_min_isr(asked.name, result)
        _check_unknown(result)
        try:
            with_settings(self._static, _dynamic(result))
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
        # The value that the cluster has anyway is not stored.
        return {key: value for key, value in result.items() if (key, value) != self._min_isr}

    def _apply(self) -> None:
        self._topic_synonyms = None
        settings = {**self.of(CLUSTER), **self.of(self._own)}
        try:
            self.config = with_settings(self._static, _dynamic(settings))
        except ConfigError as error:
            # The overrides were set under other bounds or by another version, so they are ignored.
            log.warning("configs that clients have set are ignored", reason=str(error))
            self.config = self._static

    def _node(self, name: str, not_a_number: str, more: str) -> Node:
        try:
            node_id = int(name)
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{not_a_number}{name}") from None
        for node in self._layout.nodes:
            if node.node_id == node_id:
                return node
        ids = " or ".join(map(str, self._layout.broker_ids))
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {ids}{more}, but received {name}",
        )


def _dynamic(overrides: Mapping[str, str]) -> dict[str, str]:
    """The overrides of our own settings."""
    return {key: value for key, value in overrides.items() if key in DYNAMIC_KEYS}


def _check_min_isr(name: str, overrides: Mapping[str, str]) -> None:
    """Raises ApiError INVALID_CONFIG with Kafka's text."""
    if name == CLUSTER and MIN_ISR not in overrides:
        text = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
    elif name != CLUSTER and MIN_ISR in overrides:
        text = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
    else:
        return
    raise ApiError(ErrorCode.INVALID_CONFIG, text)


def _check_unknown(overrides: Mapping[str, str]) -> None:
    """Raises ApiError POLICY_VIOLATION for too many or too long unknown keys."""
    sizes = [len(key) + len(value) for key, value in overrides.items() if is_unknown(key)]
    if len(sizes) > _UNKNOWN_MAX or sum(sizes) > _UNKNOWN_CHARS_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"At most {_UNKNOWN_MAX} configs that this broker does not know are kept, with "
            f"{_UNKNOWN_CHARS_MAX} characters.",
        )


def _unknown_key(key: str, *sources: int) -> ConfigValue:
    """The description of an unknown key. It may be a secret, so its value is not shown. `sources`:
    where it is set, the source that counts first."""
    return ConfigValue(
        name=key,
        value=None,
        read_only=True,
        is_default=False,
        source=sources[0],
        sensitive=True,
        synonyms=tuple([ConfigSynonym(key, None, source) for source in sources]),
    )


def _is_in(wanted: WantedKeys, key: str) -> bool:
    return wanted is None or key in wanted
