"""Dynamic settings of one group (resource GROUP): which may be set, how they are checked and what
their effective values are.

Each group type brings its own settings (`GroupType.configs`); all of them may be set on any group,
which need not exist. Pure functions. Overrides are kept as given, by Kafka name. A value outside
the broker's bounds is only clamped when it is read, so that a change of the broker's settings never
makes a stored override an error. Overrides take effect at the group's next heartbeat
(docs/spec/consumer-group.md#7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config.keys import ConfigKey, ConfigTable
from groupd.coordinator.config.settings import setting_text
from groupd.coordinator.config.values import INT, SOURCE_DEFAULT, SOURCE_GROUP
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig, ConfigValue

Overrides = Mapping[str, str] | None
"""A group's overrides by Kafka name; None = none."""


class GroupConfig(ConfigKey, frozen=True):
    """A setting of groups. `low_key`, `high_key`: keys of the broker's settings whose values are
    the inclusive bounds of a number. `above`: a setting of the group that must be less than this
    one. `wrong(value)`: what is wrong with a text, None for nothing."""

    low_key: str | None = None
    high_key: str | None = None
    above: str | None = None
    wrong: Callable[[str], str | None] | None = None

    def text(self, config: CoordinatorConfig, overrides: Overrides) -> str:
        """The effective value as text."""
        if self.rule.config_type == INT:
            return str(self.number(config, overrides))
        return self._given(config, overrides)

    def flag(self, config: CoordinatorConfig, overrides: Overrides) -> bool:
        """The effective value of a setting that is true or false."""
        return self._given(config, overrides) == "true"

    def number(self, config: CoordinatorConfig, overrides: Overrides) -> int:
        """The effective value: the value that is set, clamped to the broker's bounds."""
        value = self.unbounded(config, overrides)
        if self.low_key is not None:
            value = max(value, _of_broker(config, self.low_key))
        return value if self.high_key is None else min(value, _of_broker(config, self.high_key))

    def unbounded(self, config: CoordinatorConfig, overrides: Overrides) -> int:
        """The value that is set for the group, or the default; not clamped."""
        return int(self._given(config, overrides))

    def _given(self, config: CoordinatorConfig, overrides: Overrides) -> str:
        text = overrides.get(self.name) if overrides else None
        if text is not None:
            return text
        if self.broker_key is None:
            return self.default
        return setting_text(_of_broker(config, self.broker_key))

    def check(self, config: CoordinatorConfig, value: str) -> None:
        """Raises INVALID_CONFIG, with the text of Kafka's GroupConfig, if `value` is out of the
        broker's bounds or wrong."""
        fault = None if self.wrong is None else self.wrong(value)
        if fault is not None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{self.name}: {fault}")
        low = None if self.low_key is None else _of_broker(config, self.low_key)
        high = None if self.high_key is None else _of_broker(config, self.high_key)
        if (low is None or int(value) >= low) and (high is None or int(value) <= high):
            return
        bounds = f"in the range {low} to {high} inclusive"
        if low is None or high is None:
            bounds = f"at most {high}" if low is None else f"at least {low}"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{self.name} must be {bounds}.")


def _of_broker(config: CoordinatorConfig, key: str) -> Any:
    return getattr(config, FIELDS_BY_KEY[key].name)


class GroupConfigs(ConfigTable):
    """The settings of groups, those of all types together."""

    keys: Mapping[str, GroupConfig]

    def __init__(self, configs: Iterable[GroupConfig]) -> None:
        super().__init__(
            configs,
            unknown=(ErrorCode.INVALID_CONFIG, "Unknown group config name: "),
            invalid=ErrorCode.INVALID_CONFIG,
        )

    def alter(
        self,
        config: CoordinatorConfig,
        current_overrides: Mapping[str, str],
        changes: Iterable[AlterConfig],
    ) -> dict[str, str]:
        """The overrides after changes that `config_keys.check_changes` has passed: all changes or
        none.

        Raises ApiError INVALID_CONFIG for an unknown name, for a value that is malformed or out of
        the broker's bounds, for an operation meant for lists, or for a session timeout that is not
        above the heartbeat interval (a missing one has the broker's value). Deleting an unknown
        name is allowed, as in Kafka.
        """
        overrides = self.changed(
            current_overrides,
            changes,
            lambda own, name: own.get(name, ""),
            lambda name, value: self.keys[name].check(config, value),
        )
        for key in self.keys.values():
            if key.above is not None:
                value = key.unbounded(config, overrides)
                if value <= self.keys[key.above].unbounded(config, overrides):
                    text = f"{key.name} must be greater than {key.above}"
                    raise ApiError(ErrorCode.INVALID_CONFIG, text)
        return overrides

    def describe(self, config: CoordinatorConfig, overrides: Overrides) -> list[ConfigValue]:
        """All settings of a group, by name; values are the effective ones."""
        given = overrides or {}
        return [
            key.described(
                key.text(config, given), SOURCE_GROUP if name in given else SOURCE_DEFAULT
            )
            for name, key in sorted(self.keys.items())
        ]


def check_altered(group_id: str) -> None:
    """Raises ApiError INVALID_REQUEST for the empty group id: there are no defaults for all
    groups."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
