"""Subscriptions to clients' metrics (KIP-714), configs of the resource CLIENT_METRICS.

A subscription says which metrics matching clients push, and how often. Patterns are RE2, and a
client is known by its instance id, client id and address; patterns on its software or port are
refused. Checks and texts are those of Kafka's ClientMetricsConfigs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import re2
from msgspec import Struct

from groupd.coordinator.config_values import (
    INT,
    LIST,
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    InvalidValue,
    ValueRule,
    check_value,
    split_list,
)
from groupd.coordinator.topics.config_changes import changed, changes_to
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
_RULES = {METRICS: ValueRule(LIST), INTERVAL: ValueRule(INT), MATCH: ValueRule(LIST)}
_DEFAULTS = {METRICS: "", INTERVAL: str(DEFAULT_INTERVAL_MS), MATCH: ""}
_DOCUMENTATION = {
    METRICS: "Prefixes of the metrics that are pushed; * = all.",
    INTERVAL: "How often they are pushed, in milliseconds.",
    MATCH: "Which clients push them: FACT=PATTERN, all of them; none = every client.",
}
_FACTS = ("client_instance_id", "client_id", "client_source_address")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class Subscription(Struct, frozen=True):
    """`match`: fact of a client -> pattern of its whole value."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, re2._Regexp], ...]

    def matches(self, facts: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(facts[fact]) is not None for fact, pattern in self.match)


class ClientMetrics(Overrides):
    """Subscriptions by name. `version` rises with every change."""

    def __init__(self, store: Catalogue) -> None:
        super().__init__(store, RESOURCE_CLIENT_METRICS, _RULES.__contains__)
        self.version = 0
        self._subscriptions: dict[str, Subscription] = {}
        self.add_listener(self._changed)

    def matching(self, facts: Mapping[str, str]) -> Iterator[Subscription]:
        """The subscriptions of a client; `facts` by the names that patterns use."""
        return (found for found in self._subscriptions.values() if found.matches(facts))

    def describe(self, name: str) -> list[ConfigValue]:
        """Raises ApiError INVALID_REQUEST."""
        if not name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        return [_described(key, self.of(name).get(key)) for key in sorted(_RULES)]

    async def alter(self, asked: AlterResource, *, validate_only: bool) -> None:
        """Raises ApiError (nothing changed), LogError."""
        if not asked.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")

        def wanted(current: Mapping[str, str]) -> dict[str, str]:
            result = changed(
                current,
                changes_to(asked, current),
                _config_type,
                lambda own, key: own.get(key, _DEFAULTS[key]),
                _checked,
            )
            if result and not current and len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"The limit of {SUBSCRIPTIONS_MAX} subscriptions is reached.",
                )
            return result

        await self.change(asked.name, wanted, validate_only=validate_only)

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


def _described(key: str, own: str | None) -> ConfigValue:
    value = _DEFAULTS[key] if own is None else own
    source = SOURCE_DEFAULT if own is None else SOURCE_CLIENT_METRICS
    return ConfigValue(
        name=key,
        value=value,
        is_default=own is None,
        source=source,
        config_type=_RULES[key].config_type,
        documentation=_DOCUMENTATION[key],
        synonyms=() if own is None else (ConfigSynonym(key, value, source),),
    )


def _config_type(key: str) -> int:
    rule = _RULES.get(key)
    if rule is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    return rule.config_type


def _checked(key: str, value: str) -> str:
    try:
        value = check_value(key, value, _RULES[key])
    except InvalidValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if key == INTERVAL and int(value) not in _INTERVALS_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for {INTERVAL}, interval must be between 100 and 3600000 "
            "(1 hour)",
        )
    if key == MATCH:
        list(_patterns(value))
    return value


def _patterns(text: str) -> Iterator[tuple[str, re2._Regexp]]:
    """Raises ApiError INVALID_CONFIG."""
    for item in split_list(text):
        fact, _, pattern = (part.strip() for part in item.partition("="))
        try:
            if fact not in _FACTS or not pattern or "=" in pattern:
                raise ValueError
            yield fact, re2.compile(pattern, _OPTIONS)
        except (ValueError, re2.error) as error:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Illegal client matching pattern: {item} (groupd matches {', '.join(_FACTS)})",
            ) from error
