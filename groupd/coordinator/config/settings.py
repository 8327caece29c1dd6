"""How one setting is declared, read and written as text; `coordinator_config.py` has all settings.
They are standard data classes: fields carry metadata, for which a msgspec struct has no place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import Field, field
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from groupd.coordinator.suggest import did_you_mean

_LONG_MAX = 2**63 - 1


class ConfigError(ValueError):
    """`str()` is one line that says what is wrong and how to correct it."""


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
    """A field with its Kafka key and bounds (inclusive); `settings.json` says what it means.
    Default None: a whole number that may be unset. `sensitive`: a secret, which is never shown,
    logged or recorded. `internal`: as in Kafka, clients see the setting only once it is set."""
    return field(
        default=default,
        # The `repr` of the configuration must not show secrets either.
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
    """What a setting means. `why`: who changes it, and when. A value that nobody changes is an
    internal limit (`internal_limits.py`), not a setting."""

    meaning: str
    why: str


@cache
def descriptions() -> Mapping[str, Mapping[str, Described]]:
    """The meaning of all settings, by section and key, from `settings.json`."""
    text = Path(__file__).with_name("settings.json").read_bytes()
    return json.decode(text, type=dict[str, dict[str, Described]])


def described(key: str) -> Described:
    return next(entries[key] for entries in descriptions().values() if key in entries)


def setting_text(value: Any) -> str:
    """The value as text that `parse_value` reads; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def parse_value(entry: Field[Any], text: str) -> Any:
    """The typed value of one field from text, checked against the field's own bounds."""
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


LISTENER_PREFIX = "listener.name."

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms, by the names that clients send."""

_PREFIXES = ("ssl.", "sasl.", "connections.", "max.connections", "max.connection.creation.rate")
_NOT = ("max.connections.per.ip", "max.connections.per.ip.overrides")
_OF_MECHANISMS = ("sasl.", "connections.max.reauth.ms")


class ListenerKey(Struct, frozen=True):
    """The parts of the key of a setting for one listener. `text`: the whole key. `listener`,
    `mechanism`: in lower case. `mechanism` None: the value holds for all mechanisms of the
    listener."""

    text: str
    listener: str
    mechanism: str | None
    key: str


def may_be_of_listener(key: str) -> bool:
    """Whether the setting `key` may have a different value for a single listener."""
    return key.startswith(_PREFIXES) and key not in _NOT


def listener_key(text: str) -> ListenerKey:
    """The parts of a key that begins with `LISTENER_PREFIX`."""
    listener, _, key = text.removeprefix(LISTENER_PREFIX).partition(".")
    for mechanism in map(str.lower, MECHANISMS):
        if key.startswith(f"{mechanism}."):
            return ListenerKey(text, listener, mechanism, key.removeprefix(f"{mechanism}."))
    return ListenerKey(text, listener, None, key)


def checked_listener_key(text: str, known: Collection[str]) -> ListenerKey:
    """The parts of a key, as `listener_key` returns them. Raises ConfigError unless the key is one
    of `known` and may be set for a single listener."""
    found = listener_key(text)
    if not found.key or found.listener != found.listener.lower():
        raise ConfigError(f"{text}: must be listener.name.NAME.KEY with the name in lower case")
    if found.key not in known or not may_be_of_listener(found.key):
        hint = did_you_mean(found.key, filter(may_be_of_listener, known))
        raise ConfigError(f"{text}: {found.key} is no setting of a listener{hint}")
    if found.mechanism is not None and not found.key.startswith(_OF_MECHANISMS):
        raise ConfigError(f"{text}: {found.key} is no setting of a SASL mechanism")
    return found
