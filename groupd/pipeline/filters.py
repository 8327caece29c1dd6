"""Turns Spark's filters into a `RowFilter`, so that the source itself leaves rows out.

The source takes over only filters that it applies exactly, row by row; Spark applies the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from groupd.coordinator.logtools.record_types import type_name
from groupd.pipeline.options import micros_of
from groupd.pipeline.wanted import RowFilter

_SETS: dict[str, tuple[str, type, Callable[[Any], Any]]] = {
    "group": ("groups", str, str),
    "record_type": ("types", str, str),
    "record_type_id": ("types", int, type_name),
    "log_partition": ("partitions", int, int),
}
_RANGES: dict[str, tuple[str, type, Callable[[Any], int]]] = {
    "log_offset": ("offset", int, int),
    "timestamp": ("us", datetime, micros_of),
}


def push(wanted: RowFilter, filters: Iterable[Filter]) -> tuple[RowFilter, list[Filter]]:
    """Returns `wanted` narrowed by the filters that the source takes over, and the other filters,
    which Spark has to apply."""
    left = []
    for one in filters:
        limits = _limits(one, wanted)
        if limits is None:
            left.append(one)
        else:
            wanted = wanted.also(**limits)
    return wanted, left


def _limits(one: Filter, wanted: RowFilter) -> dict[str, Any] | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    # With `rest` the source keeps rows without a group or a time, but a filter drops them.
    if wanted.rest and name in ("group", "timestamp"):
        return None
    if name in _SETS and isinstance(one, EqualTo | In):
        field, kind, convert = _SETS[name]
        values = one.value if isinstance(one, In) else (one.value,)
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return {field: frozenset(convert(value) for value in values)}
    if name in _RANGES:
        field, kind, convert = _RANGES[name]
        value = getattr(one, "value", None)
        if isinstance(value, kind) and not isinstance(value, bool):
            return _range(one, field, convert(value))
    return None


def _range(one: Filter, field: str, value: int) -> dict[str, int] | None:
    """The half-open range that a comparison means. Values are whole numbers, so every bound can be
    half open."""
    match one:
        case EqualTo():
            return {f"from_{field}": value, f"until_{field}": value + 1}
        case GreaterThan():
            return {f"from_{field}": value + 1}
        case GreaterThanOrEqual():
            return {f"from_{field}": value}
        case LessThan():
            return {f"until_{field}": value}
        case LessThanOrEqual():
            return {f"until_{field}": value + 1}
    return None
