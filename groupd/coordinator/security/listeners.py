"""The listeners of a broker: their names, security protocols and addresses, and the settings that
hold for one of them only (`docs/spec/security.md#1.1`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from ipaddress import ip_address

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError, listener_key

ListenerAddress = tuple[str, int]
"""(host, port)."""

DEFAULT_NAME = "PLAINTEXT"
"""The name of the listener that --listen makes."""

_LISTENER = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^\[\]/:\s]*)):([0-9]+)")
_WILDCARDS = ("", "0.0.0.0", "::")
_PORT_MAX = 65535


class SecurityProtocol(Enum):
    """How clients of a listener authenticate."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Listener(Struct, frozen=True):
    """One listener. `name` is in upper case. `host` is empty for all interfaces, `port` 0 for any
    free one. `advertised`: the address that clients get; None: `host` as it is written, and the
    port that is bound."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised: ListenerAddress | None = None


def listeners_of(
    config: CoordinatorConfig, listen: ListenerAddress, advertised: ListenerAddress | None = None
) -> tuple[Listener, ...]:
    """The listeners of a broker, at least one. If the setting `listeners` is empty, `listen` and
    `advertised` (--listen, --advertised) make one PLAINTEXT listener. Raises ConfigError."""
    protocols = _protocols(config.listener_security_protocol_map)
    told = _addresses(config.advertised_listeners, "advertised.listeners", several_per_port=True)
    if not config.listeners:
        if told:
            raise ConfigError("advertised.listeners: only with listeners; or use --advertised")
        found = [Listener(DEFAULT_NAME, SecurityProtocol.PLAINTEXT, *listen, advertised)]
    else:
        if advertised is not None:
            raise ConfigError("--advertised: not with listeners; set advertised.listeners")
        bound = _addresses(config.listeners, "listeners")
        _check_advertised(told, bound)
        found = [
            Listener(name, _protocol(name, protocols), *address, told.get(name))
            for name, address in bound.items()
        ]
    _check_overrides(config, found)
    return tuple(found)


def listener_config(
    config: CoordinatorConfig, listener: str, mechanism: str | None = None
) -> CoordinatorConfig:
    """The settings as they hold for one listener, and for one SASL mechanism of it if one is given:
    `listener.name.NAME.MECHANISM.KEY` wins over `listener.name.NAME.KEY`, which wins over `KEY`."""
    chosen: dict[str, str] = {}
    places = [None] if mechanism is None else [None, mechanism.lower()]
    for place in places:
        for text, value in config.listener_overrides:
            key = listener_key(text)
            if (key.listener, key.mechanism) == (listener.lower(), place):
                chosen[key.key] = value
    return with_settings(config, chosen) if chosen else config


def _protocols(entries: Iterable[str]) -> Mapping[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not (name and colon and protocol in SecurityProtocol.__members__):
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(
                f"listener.security.protocol.map={entry}: must be NAME:PROTOCOL with one of {known}"
            )
        if name in found:
            raise ConfigError(f"listener.security.protocol.map: {name} is there twice")
        found[name] = SecurityProtocol[protocol]
    return found


def _protocol(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    if name not in protocols:
        raise ConfigError(
            f"listeners: {name} has no security protocol; add {name}:PROTOCOL to "
            "listener.security.protocol.map"
        )
    return protocols[name]


def _addresses(
    entries: Sequence[str], key: str, several_per_port: bool = False
) -> Mapping[str, ListenerAddress]:
    """The addresses by name in upper case, in the given order. Raises ConfigError."""
    found: dict[str, ListenerAddress] = {}
    for entry in entries:
        match = _LISTENER.fullmatch(entry)
        if match is None or int(match[4]) > _PORT_MAX:
            raise ConfigError(
                f"{key}={entry}: must be NAME://HOST:PORT with a port from 0 to {_PORT_MAX}"
            )
        name, address = match[1].upper(), (match[2] or match[3], int(match[4]))
        if name in found:
            raise ConfigError(f"{key}: {name} is there twice")
        if not several_per_port:
            _check_port(key, address, found.values())
        found[name] = address
    return found


def _check_port(key: str, address: ListenerAddress, others: Iterable[ListenerAddress]) -> None:
    """Raises ConfigError if a port is there twice, except once for an IPv4 and once for an IPv6
    address."""
    host, port = address
    same = [other for other, used in others if used == port and port]
    if same and (len(same) > 1 or {_version(host), _version(same[0])} != {4, 6}):
        raise ConfigError(f"{key}: port {port} is there twice; each listener needs its own")


def _version(host: str) -> int:
    """The IP version of an address: 4 or 6; 0 for a text that is no IP address."""
    try:
        return ip_address(host).version
    except ValueError:
        return 0


def _check_advertised(
    told: Mapping[str, ListenerAddress], bound: Mapping[str, ListenerAddress]
) -> None:
    for name, (host, port) in told.items():
        if name not in bound:
            raise ConfigError(f"advertised.listeners: {name} is not in listeners")
        if host in _WILDCARDS:
            raise ConfigError(
                f"advertised.listeners: {name} has the address {host or 'of all interfaces'}, to "
                "which no client can connect; name a real one"
            )
        if not port:
            raise ConfigError(
                f"advertised.listeners: {name} has port 0, to which no client can connect; name "
                "the real one"
            )


def _check_overrides(config: CoordinatorConfig, listeners: Iterable[Listener]) -> None:
    """Raises ConfigError for settings of a listener that does not exist, and for values that do not
    fit together."""
    names = {listener.name.lower() for listener in listeners}
    for text, _ in config.listener_overrides:
        key = listener_key(text)
        if key.listener not in names:
            raise ConfigError(
                f"{key.text}: there is no listener {key.listener.upper()}; listeners has "
                f"{', '.join(sorted(name.upper() for name in names))}"
            )
        listener_config(config, key.listener, key.mechanism)
