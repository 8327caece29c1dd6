"""Subscriptions to clients' metrics (KIP-714), configs of the resource CLIENT_METRICS.

A subscription says which metrics matching clients push, and how often. Patterns are RE2, and a
client is known by its instance id, client id and address; patterns on its software or port are
refused. Checks and texts are those of Kafka's ClientMetricsConfigs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.keys import ConfigKey, ConfigTable, Wanted, changes_to
from groupd.coordinator.config.values import (
    INT,
    LIST,
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    ValueRule,
    split_list,
)
from groupd.coordinator.patterns import Pattern, compile_pattern
from groupd.coordinator.topics.overrides import Overrides
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_CLIENT_METRICS,
    AlterResource,
    ConfigSynonym,
    ConfigValue,
)
from groupd.storage.log import Catalogue

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
DEFAULT_INTERVAL_MS = 300_000
ALL_METRICS = "*"

SUBSCRIPTIONS_MAX = 100

_INTERVALS_MS = range(100, 3_600_001)
_FACTS = ("client_instance_id", "client_id", "client_source_address")


class Subscription(Struct, frozen=True):
    """`match`: fact of a client -> pattern of its whole value."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, Pattern], ...]

    def matches(self, facts: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(facts[fact]) is not None for fact, pattern in self.match)


def _patterns(text: str) -> Iterator[tuple[str, Pattern]]:
    """Raises ApiError INVALID_CONFIG."""
    for item in split_list(text):
        fact, _, pattern = (part.strip() for part in item.partition("="))
        try:
            if fact not in _FACTS or not pattern or "=" in pattern:
                raise ValueError(f"groupd matches {', '.join(_FACTS)}")
            yield fact, compile_pattern(pattern)
        except ValueError as error:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item} ({error})"
            ) from error


def _check(name: str, value: str) -> None:
    if name == INTERVAL and int(value) not in _INTERVALS_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for {INTERVAL}, interval must be between 100 and 3600000 "
            "(1 hour)",
        )
    if name == MATCH:
        list(_patterns(value))


_CONFIGS = ConfigTable(
    (
        ConfigKey(
            INTERVAL,
            ValueRule(INT),
            str(DEFAULT_INTERVAL_MS),
            "How often they are pushed, in milliseconds.",
        ),
        ConfigKey(
            MATCH,
            ValueRule(LIST),
            documentation="Which clients push them: FACT=PATTERN, all of them; none = every "
            "client.",
        ),
        ConfigKey(
            METRICS,
            ValueRule(LIST),
            documentation="Prefixes of the metrics that are pushed; * = all.",
        ),
    ),
    unknown=(ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: "),
    invalid=ErrorCode.INVALID_CONFIG,
)


class ClientMetrics(Overrides):
    """Subscriptions by name. `version` rises with every change."""

    def __init__(self, store: Catalogue, changes: CatalogueChanges) -> None:
        super().__init__(
            store,
            changes,
            RESOURCE_CLIENT_METRICS,
            _CONFIGS.keys.__contains__,
            SUBSCRIPTIONS_MAX,
            "subscriptions",
        )
        self.version = 0
        self._subscriptions: dict[str, Subscription] = {}
        self.add_listener(self._changed)

    def count(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    def matching(self, facts: Mapping[str, str]) -> Iterator[Subscription]:
        """The subscriptions of a client; `facts` by the names that patterns use."""
        return (found for found in self._subscriptions.values() if found.matches(facts))

    def describe(self, name: str, wanted: Wanted) -> list[ConfigValue]:
        if not name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        own = self.of(name)
        described = []
        for key in _CONFIGS.keys.values():
            if wanted is not None and key.name not in wanted:
                continue
            if key.name in own:
                value, source = own[key.name], SOURCE_CLIENT_METRICS
                synonyms = (ConfigSynonym(key.name, value, source),)
                described.append(key.described(value, source, synonyms))
            else:
                described.append(key.described(key.default, SOURCE_DEFAULT))
        return described

    def check_altered(self, name: str) -> None:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")

    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        return _CONFIGS.changed(
            current,
            changes_to(asked, current),
            lambda own, key: own.get(key, _CONFIGS.keys[key].default),
            _check,
        )

    def _changed(self, name: str, values: Mapping[str, str]) -> None:
        self.version += 1
        if values:
            self._subscriptions[name] = Subscription(
                tuple(split_list(values.get(METRICS, ""))),
                int(values.get(INTERVAL, DEFAULT_INTERVAL_MS)),
                tuple(_patterns(values.get(MATCH, ""))),
            )
        else:
            self._subscriptions.pop(name, None)
