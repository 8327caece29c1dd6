"""Settings that hold for one listener only: `listener.name.NAME.KEY`, and for one SASL mechanism of
it: `listener.name.NAME.MECHANISM.KEY` (`docs/spec/security.md#1.1`)."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.suggest import did_you_mean

LISTENER_PREFIX = "listener.name."

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms, by the names that clients send."""

_PREFIXES = ("ssl.", "sasl.", "connections.", "max.connections", "max.connection.creation.rate")
_NOT = ("max.connections.per.ip", "max.connections.per.ip.overrides")
_OF_MECHANISMS = ("sasl.", "connections.max.reauth.ms")


class ListenerKey(Struct, frozen=True):
    """`text` is the whole key. `listener` and `mechanism` are in lower case; `mechanism` None: the
    value holds for the listener, whatever mechanism a client uses."""

    text: str
    listener: str
    mechanism: str | None
    key: str


def may_be_of_listener(key: str) -> bool:
    """Whether `key` may have another value for one listener."""
    return key.startswith(_PREFIXES) and key not in _NOT


def listener_key(text: str) -> ListenerKey:
    """The parts of a key that begins with `LISTENER_PREFIX`."""
    listener, _, key = text.removeprefix(LISTENER_PREFIX).partition(".")
    for mechanism in map(str.lower, MECHANISMS):
        if key.startswith(f"{mechanism}."):
            return ListenerKey(text, listener, mechanism, key.removeprefix(f"{mechanism}."))
    return ListenerKey(text, listener, None, key)


def checked_listener_key(text: str, known: Collection[str]) -> ListenerKey:
    """The parts of a key, as `listener_key` gives them. Raises ConfigError unless the key is one of
    `known` and may have another value there."""
    found = listener_key(text)
    if not found.key or found.listener != found.listener.lower():
        raise ConfigError(f"{text}: must be listener.name.NAME.KEY with the name in lower case")
    if found.key not in known or not may_be_of_listener(found.key):
        hint = did_you_mean(found.key, filter(may_be_of_listener, known))
        raise ConfigError(f"{text}: {found.key} is no setting of a listener{hint}")
    if found.mechanism is not None and not found.key.startswith(_OF_MECHANISMS):
        raise ConfigError(f"{text}: {found.key} is no setting of a SASL mechanism")
    return found
