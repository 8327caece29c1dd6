"""What `--set NAME=VALUE` says of lengths of time."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from groupd.pipeline.errors import PipelineError

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LENGTH = re.compile(r"(?:\d+(?:ms|[smhd]))+", re.ASCII)
_PART = re.compile(r"(\d+)(ms|[smhd])", re.ASCII)


def length(value: Any) -> timedelta:
    """`90s`, `5m`, `1h30m`. Raises PipelineError."""
    word = str(value).strip()
    total = sum(
        (timedelta(**{_UNITS[unit]: int(count)}) for count, unit in _PART.findall(word)),
        timedelta(),
    )
    if not _LENGTH.fullmatch(word) or not total:
        raise PipelineError(f"{value} is not a length of time: write 30s, 5m or 1h30m")
    return total
