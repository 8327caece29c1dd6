"""Values of configs that clients may set: types, bounds, and Kafka's error texts. Rules and texts
are those of Kafka's `ConfigDef` (parseType, Range, ValidString, ValidList).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, PASSWORD = 1, 2, 3, 4, 5, 6, 7, 9
"""Types of configs, as DescribeConfigs numbers them."""

SOURCE_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT_BROKER = 1, 2, 3
SOURCE_STATIC_BROKER, SOURCE_DEFAULT, SOURCE_CLIENT_METRICS, SOURCE_GROUP = 4, 5, 7, 8
"""Where a value comes from, as DescribeConfigs numbers it."""

_BITS = {INT: 31, LONG: 63}
_NAMES = {INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class InvalidValue(ValueError):
    """`str()` is Kafka's error text."""


class ValueRule(Struct, frozen=True):
    """The values that are allowed. `low`, `high`: inclusive bounds of numbers; `or_equal`: one more
    allowed number; `choices`: allowed strings, and allowed items of lists."""

    config_type: int
    low: float | None = None
    high: float | None = None
    or_equal: int | None = None
    choices: tuple[str, ...] = ()


def check_value(name: str, text: str, rule: ValueRule) -> str:
    """The value in the form in which it is stored. Raises InvalidValue."""
    text = text.strip()
    if rule.config_type == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _invalid(name, text, "Expected value to be either true or false")
        return text.lower()
    if rule.config_type == LIST:
        _check_choices(name, split_list(text), rule.choices)
    elif rule.config_type == STRING:
        _check_choices(name, [text], rule.choices)
    else:
        _check_range(name, _number(name, text, rule.config_type), rule)
    return text


def split_list(value: str) -> list[str]:
    """The items of a LIST value."""
    return [item.strip() for item in value.split(",") if item.strip()]


def _check_choices(name: str, items: Sequence[str], choices: tuple[str, ...]) -> None:
    for item in items:
        if choices and item not in choices:
            raise _invalid(name, item, f"String must be one of: {', '.join(choices)}")


def _number(name: str, text: str, config_type: int) -> int | float:
    try:
        if config_type == DOUBLE:
            return float(text)
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else None
    except ValueError:
        number = None
    if number is None or not -(1 << _BITS[config_type]) <= number < 1 << _BITS[config_type]:
        raise _invalid(name, text, f"Not a number of type {_NAMES[config_type]}")
    return number


def _check_range(name: str, number: float, rule: ValueRule) -> None:
    if rule.or_equal is not None:
        within = rule.low is not None and rule.high is not None and rule.low <= number <= rule.high
        if not within and number != rule.or_equal:
            raise _invalid(
                name,
                number,
                f"Value must be between {rule.low} and {rule.high} or equal to {rule.or_equal}",
            )
        return
    if rule.low is not None and number < rule.low:
        raise _invalid(name, number, f"Value must be at least {rule.low}")
    if rule.high is not None and not number <= rule.high:
        raise _invalid(name, number, f"Value must be no more than {rule.high}")


def _invalid(name: str, value: object, reason: str) -> InvalidValue:
    return InvalidValue(f"Invalid value {value} for configuration {name}: {reason}")
