"""What `--set NAME=VALUE` says of times: instants and lengths of time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.errors import PipelineError

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
        raise PipelineError(f"{value} is no length of time: write 30s, 5m or 1h30m")
    return total


def instant(value: Any) -> datetime:
    """ISO 8601 (without a zone it is UTC, as everything here), milliseconds since 1970, or a
    datetime. In UTC. Raises PipelineError."""
    if isinstance(value, datetime):
        moment = value
    else:
        word = str(value).strip()
        try:
            if word.isascii() and word.isdecimal() and len(word) > len("20260301"):
                moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(word))
            else:
                moment = datetime.fromisoformat(word)
        except (ValueError, OverflowError):
            raise PipelineError(
                f"{value} is no time: write ISO 8601 or milliseconds since 1970"
            ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
