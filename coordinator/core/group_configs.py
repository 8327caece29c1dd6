"""Dynamic settings of one group (resource GROUP): what may be set, how it is checked, what counts.

Each group type declares its settings (`GroupType.settings`). Overrides are kept as given, by Kafka
name; a group need not exist to have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.config_values import (
    BOOLEAN,
    INT,
    SOURCE_DEFAULT,
    SOURCE_GROUP,
    STRING,
    InvalidValue,
    ValueRule,
    check_value,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import ConfigValue

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations of IncrementalAlterConfigs."""

Overrides = Mapping[str, str] | None
"""A group's overrides by Kafka name; None = none."""


class GroupSetting(Struct, frozen=True):
    """`broker_key` and `attribute`: the broker's setting, which counts where the group has none,
    and where `CoordinatorConfig` has it. `low` and `high`: attributes with the broker's bounds, ""
    for none. `above`: a setting that this one must be greater than."""

    name: str
    broker_key: str
    attribute: str
    rule: ValueRule
    documentation: str
    low: str = ""
    high: str = ""
    above: GroupSetting | None = None

    def text(self, config: CoordinatorConfig, overrides: Overrides) -> str:
        """The value that counts, as DescribeConfigs spells it."""
        given = overrides.get(self.name) if overrides else None
        if self.rule.config_type == INT:
            return str(self.number(config, overrides or {}))
        if given is not None:
            return given.lower()
        value = getattr(config, self.attribute)
        return str(value).lower() if self.rule.config_type == BOOLEAN else str(value)

    def number(self, config: CoordinatorConfig, overrides: Mapping[str, str]) -> int:
        """The value that counts, of a setting of type INT: within the broker's bounds."""
        low: int = getattr(config, self.low)
        high: int = getattr(config, self.high)
        return min(max(self.stored(config, overrides), low), high)

    def stored(self, config: CoordinatorConfig, overrides: Mapping[str, str]) -> int:
        """The override as it is stored, or the broker's value."""
        given = overrides.get(self.name)
        return int(getattr(config, self.attribute) if given is None else given)

    def checked(self, config: CoordinatorConfig, text: str) -> str:
        """The value as it is kept. Raises INVALID_CONFIG. The bounds of the broker are named, as
        by Kafka's GroupConfig."""
        try:
            value = check_value(
                self.name, text.lower() if self.rule.config_type == STRING else text, self.rule
            )
        except InvalidValue as error:
            raise _invalid(str(error)) from error
        if self.low and int(value) < getattr(config, self.low):
            raise _invalid(f"{self.name} must be greater than or equal to {self._bound('min')}")
        if self.high and int(value) > getattr(config, self.high):
            raise _invalid(f"{self.name} must be less than or equal to {self._bound('max')}")
        return value

    def _bound(self, which: str) -> str:
        """group.consumer.session.timeout.ms -> group.consumer.min.session.timeout.ms."""
        group, type_name, rest = self.broker_key.split(".", 2)
        return f"{group}.{type_name}.{which}.{rest}"


def alter(
    settings: Sequence[GroupSetting],
    config: CoordinatorConfig,
    current_overrides: Mapping[str, str],
    changes: Iterable[tuple[str, int, str | None]],
    *,
    group_id: str | None = None,
) -> dict[str, str]:
    """The overrides after (name, operation, value) changes; all or nothing.

    Raises INVALID_CONFIG for an unknown name, a value that is malformed or out of the broker's
    bounds, an operation meant for lists, or a session timeout not above the heartbeat interval
    (the broker's value standing in for a missing one); INVALID_REQUEST for an empty `group_id`
    or a name given twice. Deleting an unknown name is no mistake, as in Kafka.
    """
    if group_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    by_name = {one.name: one for one in settings}
    overrides = dict(current_overrides)
    seen: set[str] = set()
    for name, operation, value in changes:
        if name in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is given more than once.")
        seen.add(name)
        if operation == DELETE:
            overrides.pop(name, None)
            continue
        if name not in by_name:
            raise _invalid(f"Unknown group config name: {name}")
        if operation == SET and value is not None:
            overrides[name] = by_name[name].checked(config, value)
        elif operation == SET:
            raise _invalid(f"Null value not supported for group configs: {name}")
        else:
            done = "SUBTRACT" if operation == SUBTRACT else "APPEND"
            raise _invalid(f"Can't {done} to key {name} because its type is not LIST.")
    for one in settings:
        if one.above and one.stored(config, overrides) <= one.above.stored(config, overrides):
            raise _invalid(f"{one.name} must be greater than {one.above.name}")
    return overrides


def describe(
    settings: Sequence[GroupSetting], config: CoordinatorConfig, overrides: Overrides
) -> list[ConfigValue]:
    """All settings of a group, by name; values are the effective ones."""
    given = overrides or {}
    return [
        ConfigValue(
            one.name,
            one.text(config, given),
            is_default=one.name not in given,
            source=SOURCE_GROUP if one.name in given else SOURCE_DEFAULT,
            config_type=one.rule.config_type,
            documentation=one.documentation,
        )
        for one in sorted(settings, key=lambda one: one.name)
    ]


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)
