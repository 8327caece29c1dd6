"""Reads a TIME of the command line, in the forms in which people and programs write an instant.

Forms: ISO 8601 (`2026-03-01T12:00:00Z`, `2026-03-01 12:00+01:00`, `2026-03-01`; without a zone it
is local time), milliseconds since 1970 (`1772366400000`), `now`, and before now (`-90s`, `-15m`,
`-2h`, `-1h30m`, `-7d`, `-2w`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from groupd.coordinator.cli.errors import UsageError

FORMS = "ISO 8601, milliseconds since 1970, now, or -15m, -2h, -7d"

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BEFORE_NOW = re.compile(r"-(?:\d+(?:ms|[smhdw]))+", re.ASCII)
_PART = re.compile(r"(\d+)(ms|[smhdw])", re.ASCII)
_SECONDS_DIGITS = (9, 10)
"""How many digits the seconds since 1970 have between 1973 and 2286. Read as milliseconds, such a
number would be a time in 1970."""
_MAX_MS = 253_402_300_799_999  # the end of the year 9999


def parse_time(text: str, now_ms: int) -> int:
    """The time in milliseconds since 1970. Raises UsageError, which names `text` and the forms."""
    word = text.strip()
    if word == "now":
        return now_ms
    if _BEFORE_NOW.fullmatch(word):
        return now_ms - sum(int(n) * _UNIT_MS[unit] for n, unit in _PART.findall(word))
    if word.isascii() and word.isdecimal() and len(word) != len("20260301"):
        return _milliseconds(word)
    try:
        moment = datetime.fromisoformat(word)
        # `astimezone` takes a time without a zone for local time.
        return _to_ms(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise UsageError(f"{text or '(nothing)'} is no time: write {FORMS}") from None


def _milliseconds(word: str) -> int:
    if len(word) in _SECONDS_DIGITS:
        raise UsageError(f"{word} looks like seconds since 1970: times are in milliseconds")
    if len(word) > len(str(_MAX_MS)) or int(word) > _MAX_MS:
        raise UsageError(f"{word} is after the year 9999: times are in milliseconds since 1970")
    return int(word)


def _to_ms(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def show_time(time_ms: int) -> str:
    """Local time with its zone, to the millisecond; "-" for -1 (unknown)."""
    if time_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return moment.replace(microsecond=time_ms % 1000 * 1000).isoformat(" ", "milliseconds")
