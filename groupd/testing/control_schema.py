"""Checks input against the part of JSON Schema that the control API's OpenAPI document uses.

The same schemas serve as documentation and as the check, so the API accepts what is documented.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


class BadInput(ValueError):
    """The input does not match its schema. `str()` is one line that says where and why."""


def check(value: Any, schema: Schema, where: str = "body") -> None:
    """Raises BadInput when `value` does not match `schema`."""
    if "anyOf" in schema:
        _check_any(value, schema["anyOf"], where)
        return
    if "type" in schema and not _is(value, schema["type"]):
        raise BadInput(f"{where} must be {schema['type']}")
    if "enum" in schema and value not in schema["enum"]:
        raise BadInput(f"{where} must be one of {', '.join(map(str, schema['enum']))}")
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        raise BadInput(f"{where} has more than {schema['maxLength']} characters")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_bounds(value, schema, where)
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            raise BadInput(f"{where} has more than {schema['maxItems']} entries")
        for index, item in enumerate(value):
            check(item, schema.get("items", {}), f"{where}[{index}]")
    if isinstance(value, dict):
        _check_object(value, schema, where)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def _check_any(value: Any, choices: list[Schema], where: str) -> None:
    reasons = []
    for choice in choices:
        try:
            check(value, choice, where)
        except BadInput as bad:
            reasons.append(str(bad))
        else:
            return
    raise BadInput(" or ".join(dict.fromkeys(reasons)))


def _check_bounds(value: float, schema: Schema, where: str) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and not value <= high):
        raise BadInput(f"{where} must be from {low} to {high}")
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        raise BadInput(f"{where} must be above {schema['exclusiveMinimum']}")


def _check_object(value: Mapping[str, Any], schema: Schema, where: str) -> None:
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties", False)
    for name in schema.get("required", ()):
        if name not in value:
            raise BadInput(f"{where} needs {name}")
    for name, item in value.items():
        if name in known:
            check(item, known[name], f"{where}.{name}")
        elif rest is False:
            raise BadInput(f"{where} has no {name}")
        elif isinstance(rest, Mapping):
            check(item, rest, f"{where}.{name}")
