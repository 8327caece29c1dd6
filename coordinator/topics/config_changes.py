"""What IncrementalAlterConfigs and AlterConfigs ask, applied to overrides: one rule for both.

Sources and texts: Kafka's ConfigAdminManager and ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groupd.coordinator.config_values import LIST, split_list
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig, AlterResource

SET, DELETE, APPEND, SUBTRACT = range(4)
_LIST_OPERATIONS = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


def check_changes(changes: tuple[AlterConfig, ...]) -> None:
    """Raises ApiError INVALID_REQUEST for a key given twice or a missing value."""
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
    """The changes of overrides that are `current`: AlterConfigs deletes what it does not name."""
    if not asked.replace:
        return asked.configs
    named = {change.name for change in asked.configs}
    gone = [AlterConfig(key, DELETE, None) for key in sorted(current) if key not in named]
    return (*gone, *asked.configs)


def changed(
    overrides: Mapping[str, str],
    changes: tuple[AlterConfig, ...],
    config_type: Callable[[str], int],
    effective: Callable[[Mapping[str, str], str], str],
    check: Callable[[str, str], str],
) -> dict[str, str]:
    """The overrides after the changes. `config_type(key)` raises ApiError for an unknown key,
    `effective(overrides, key)` is what lists are appended to, and `check(key, value)` gives the
    stored form or raises ApiError. Deleting what is not there, or not known, is no mistake."""
    result = dict(overrides)
    for change in changes:
        if change.operation == DELETE:
            result.pop(change.name, None)
            continue
        if change.operation not in (SET, *_LIST_OPERATIONS):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}")
        value = change.value or ""
        if config_type(change.name) != LIST and change.operation != SET:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {_LIST_OPERATIONS[change.operation]} to key {change.name} because its "
                "type is not LIST.",
            )
        if change.operation != SET:
            items = split_list(effective(result, change.name))
            value = ",".join(_combined(items, split_list(value), change.operation))
        result[change.name] = check(change.name, value)
    return result


def _combined(items: list[str], given: list[str], operation: int) -> list[str]:
    if operation == SUBTRACT:
        return [item for item in items if item not in given]
    return items + [item for item in dict.fromkeys(given) if item not in items]
