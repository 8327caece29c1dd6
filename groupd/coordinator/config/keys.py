"""Configs that clients may set on a resource: how a key is declared, checked and changed. Topics,
groups, the broker and subscriptions to clients' metrics all use this. Texts are those of Kafka's
ConfigAdminManager and ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping

from msgspec import Struct

from groupd.coordinator.config.values import (
    LIST,
    SOURCE_DEFAULT,
    InvalidValue,
    ValueRule,
    check_value,
    split_list,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig, AlterResource, ConfigSynonym, ConfigValue
from groupd.protocol.primitives import STRING_BYTES_MAX

SET, DELETE, APPEND, SUBTRACT = range(4)
"""The operations of IncrementalAlterConfigs."""

_LIST_OPERATIONS = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


WantedKeys = Container[str] | None
"""Names of keys; None = all."""

CONFIGS_MAX = 1000
"""The most configs of one resource in one request: several times the number of keys."""


class ConfigKey(Struct, frozen=True):
    """A key, the values that it may have, and its default. `broker_key`: the broker's key whose
    value takes the place of `default`."""

    name: str
    rule: ValueRule
    default: str = ""
    documentation: str = ""
    broker_key: str | None = None

    def described(
        self, value: str | None, source: int, synonyms: tuple[ConfigSynonym, ...] = ()
    ) -> ConfigValue:
        """The value as DescribeConfigs shows it. `source`: where the value comes from."""
        return ConfigValue(
            name=self.name,
            value=value,
            is_default=source == SOURCE_DEFAULT,
            source=source,
            config_type=self.rule.config_type,
            documentation=self.documentation,
            synonyms=synonyms,
        )


class ConfigTable:
    """All keys of one type of resource. `unknown`: code and text for an unknown key, whose name is
    added to the text. `invalid`: code for a value that the key's rule forbids."""

    def __init__(
        self, keys: Iterable[ConfigKey], *, unknown: tuple[ErrorCode, str], invalid: ErrorCode
    ) -> None:
        self.keys: Mapping[str, ConfigKey] = {key.name: key for key in keys}
        self._unknown = unknown
        self._invalid = invalid

    def key(self, name: str) -> ConfigKey:
        """The key with this name. Raises ApiError if there is none."""
        key = self.keys.get(name)
        if key is None:
            code, text = self._unknown
            raise ApiError(code, text + name)
        return key

    def checked(self, name: str, value: str) -> str:
        """The value in its stored form. Raises ApiError."""
        if len(value.encode()) > STRING_BYTES_MAX:
            raise ApiError(
                self._invalid,
                f"Invalid value for configuration {name}: longer than {STRING_BYTES_MAX} bytes",
            )
        try:
            return check_value(name, value, self.key(name).rule)
        except InvalidValue as error:
            raise ApiError(self._invalid, str(error)) from error

    def changed(
        self,
        overrides: Mapping[str, str],
        changes: Iterable[AlterConfig],
        effective: Callable[[Mapping[str, str], str], str],
        check: Callable[[str, str], None] | None = None,
    ) -> dict[str, str]:
        """The overrides after the changes. `effective(overrides, key)`: the list value to which
        items are appended. `check(key, stored value)`: one more rule, which raises ApiError. To
        delete a key that has no override, or is unknown, is not an error. Raises ApiError."""
        result = dict(overrides)
        for change in changes:
            name, operation, value = change.name, change.operation, change.value or ""
            if operation == DELETE:
                result.pop(name, None)
                continue
            if operation not in (SET, *_LIST_OPERATIONS):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
            if self.key(name).rule.config_type != LIST and operation != SET:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {_LIST_OPERATIONS[operation]} to key {name} because its type is not "
                    "LIST.",
                )
            if operation != SET:
                items, given = split_list(effective(result, name)), split_list(value)
                if operation == APPEND:
                    known = set(items)
                    items += [item for item in dict.fromkeys(given) if item not in known]
                else:
                    gone = set(given)
                    items = [item for item in items if item not in gone]
                value = ",".join(items)
            result[name] = self.checked(name, value)
            if check is not None:
                check(name, result[name])
        return result


def check_count(configs: Collection[object]) -> None:
    """Raises ApiError INVALID_REQUEST if there are more than `CONFIGS_MAX` configs of one
    resource."""
    if len(configs) > CONFIGS_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{len(configs)} configs of one resource; at most {CONFIGS_MAX} are allowed.",
        )


def check_changes(changes: tuple[AlterConfig, ...]) -> None:
    """Raises ApiError INVALID_REQUEST if there are too many changes, a key is named twice, or a
    value is missing."""
    check_count(changes)
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [
        change.name for change in changes if change.value is None and change.operation != DELETE
    ]
    if missing:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}"
        )


def changes_to(asked: AlterResource, current: Mapping[str, str]) -> tuple[AlterConfig, ...]:
    """The changes that the request makes to the overrides `current`. AlterConfigs deletes the keys
    that it does not name."""
    if not asked.replace:
        return asked.configs
    named = {change.name for change in asked.configs}
    gone = [AlterConfig(key, DELETE, None) for key in sorted(current) if key not in named]
    return (*gone, *asked.configs)
