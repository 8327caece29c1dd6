"""Errors that the user can correct, and options as the user types them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any


class PipelineError(Exception):
    """`str()` is one line that says what is wrong and how the user can correct it."""


class JobFailed(Exception):
    """A job failed, or this installation cannot do it; `str()` is one line."""


_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LENGTH = re.compile(r"(?:\d+(?:ms|[smhd]))+", re.ASCII)
_PART = re.compile(r"(\d+)(ms|[smhd])", re.ASCII)


def length(value: Any) -> timedelta:
    """The length of time that text such as `90s`, `5m` or `1h30m` means. Raises PipelineError."""
    word = str(value).strip()
    total = sum(
        (timedelta(**{_UNITS[unit]: int(count)}) for count, unit in _PART.findall(word)),
        timedelta(),
    )
    if not _LENGTH.fullmatch(word) or not total:
        raise PipelineError(f"{value} is not a length of time: write 30s, 5m or 1h30m")
    return total


def length_ms(value: Any) -> int:
    """The same in milliseconds. Raises PipelineError."""
    return length(value) // timedelta(milliseconds=1)


def at_least_one(options: Mapping[str, Any], name: str) -> int:
    """The value of an option that is a whole number. Raises PipelineError."""
    try:
        value = int(options[name])
    except (TypeError, ValueError):
        value = 0
    if value < 1:
        raise PipelineError(f"{name} must be a whole number, at least 1, not {options[name]}")
    return value
