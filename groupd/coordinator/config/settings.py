"""How one setting is declared, read and written as text; `coordinator_config.py` has all of them.

The settings are standard data classes: their fields carry metadata, which a msgspec struct has no
room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, json

_LONG_MAX = 2**63 - 1


class ConfigError(ValueError):
    """`str()` is one line that says what is wrong and how to mend it."""


def setting(
    key: str,
    default: Any,
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    sensitive: bool = False,
    internal: bool = False,
) -> Any:
    """A field with its Kafka name and bounds (inclusive); `settings.json` says what it means.
    Default None: a whole number that may be left unset. `sensitive`: a secret, which is never
    shown, logged or recorded. `internal`: internal in Kafka, where clients see it only once
    somebody has set it."""
    return field(
        default=default,
        # A secret must not stand in the `repr` of the configuration either.
        repr=not sensitive,
        metadata={
            "key": key,
            "low": low,
            "high": high,
            "choices": choices,
            "sensitive": sensitive,
            "internal": internal,
        },
    )


class Described(Struct, frozen=True):
    """`why`: who changes the setting, and when. What nobody changes is no setting but a constant
    (`constants.py`)."""

    meaning: str
    why: str


@cache
def descriptions() -> Mapping[str, Mapping[str, Described]]:
    """What the settings mean, by section and key, from `settings.json`."""
    text = Path(__file__).with_name("settings.json").read_bytes()
    return json.decode(text, type=dict[str, dict[str, Described]])


def described(key: str) -> Described:
    """What one setting means."""
    return next(entries[key] for entries in descriptions().values() if key in entries)


def setting_text(value: Any) -> str:
    """A value as `parse_value` reads it; empty for one that is unset."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def parse_value(entry: Field[Any], text: str) -> Any:
    """The typed value of one field from text, checked against its own bounds."""
    key, meta, text = entry.metadata["key"], entry.metadata, text.strip()
    if isinstance(entry.default, bool):
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{key}={text}: must be true or false")
        return text.lower() == "true"
    if entry.default is None and not text:
        return None
    if entry.default is None or isinstance(entry.default, int):
        return _parse_int(key, text, meta)
    if isinstance(entry.default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if meta["choices"] and text.lower() not in meta["choices"]:
        raise ConfigError(f"{key}={text}: must be one of {', '.join(meta['choices'])}")
    return text.lower() if meta["choices"] else text


def _parse_int(key: str, text: str, meta: Mapping[str, Any]) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(f"{key}={text}: must be a whole number") from None
    low = -_LONG_MAX if meta["low"] is None else meta["low"]
    high = _LONG_MAX if meta["high"] is None else meta["high"]
    if not low <= value <= high:
        span = f"at least {low}" if meta["high"] is None else f"between {low} and {high}"
        raise ConfigError(f"{key}={text}: must be {span}")
    return value
