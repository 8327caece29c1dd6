"""The checker agrees with JSON Schema on what the control API's document says."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.testing.control_schema import BadInput, check

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, {"type": "integer"}),
        (1, {"type": "number", "exclusiveMinimum": 0}),
        (None, {"type": "null"}),
        (["a"], {"type": "array", "items": {"type": "string"}, "maxItems": 1}),
        ({"a": 1}, OBJECT),
        ({"a": 1, "b": "x"}, {**OBJECT, "additionalProperties": {"type": "string"}}),
        (None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_fits(value: Any, schema: dict[str, Any]) -> None:
    check(value, schema)


@pytest.mark.parametrize(
    ("value", "schema", "says"),
    [
        (True, {"type": "integer"}, "must be integer"),
        (1.5, {"type": "integer"}, "must be integer"),
        (float("nan"), {"type": "number", "minimum": 0, "maximum": 1}, "from 0 to 1"),
        (0, {"type": "number", "exclusiveMinimum": 0}, "above 0"),
        ("abc", {"type": "string", "maxLength": 2}, "more than 2"),
        ([1, 2], {"type": "array", "maxItems": 1}, "more than 1"),
        ([1], {"type": "array", "items": {"type": "string"}}, r"body\[0\] must be string"),
        ({}, OBJECT, "needs a"),
        ({"a": 1, "b": 2}, OBJECT, "has no b"),
        (5, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or body must be null"),
        ("x", {"enum": ["a", "b"]}, "one of a, b"),
    ],
)
def test_does_not_fit(value: Any, schema: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        check(value, schema)
