"""How a node shows the other nodes of its cluster who it is, as Kafka's brokers do: by the settings
of the listener that nodes use among each other.

With TLS it shows the listener's own certificate and trusts the CAs of `ssl.truststore...` (without
one, those of the system). With SASL it logs in as the `username` and `password` of the login module
of `sasl.mechanism.inter.broker.protocol`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.security.sasl.client import Login, login, password_exchange
from groupd.coordinator.security.sasl.jaas import parse_jaas
from groupd.coordinator.security.sasl.mechanisms import PLAIN
from groupd.coordinator.security.scram_credentials import MECHANISMS as SCRAM
from groupd.coordinator.security.tls import ListenerTls

_MECHANISMS = (PLAIN, *SCRAM)


class PeerSecurity(Struct, frozen=True):
    """`tls()`: the context of a new connection to another node; None: not encrypted. `login()`: the
    calls by which this node says who it is; None: none are needed."""

    tls: Callable[[], ssl.SSLContext] | None = None
    login: Callable[[], Login] | None = None


UNPROTECTED = PeerSecurity()


def inter_broker_listener(config: CoordinatorConfig, listeners: Sequence[Listener]) -> Listener:
    """The listener that other nodes connect to. Raises ConfigError."""
    wanted = config.inter_broker_listener_name.upper()
    if not wanted:
        return listeners[0]
    for listener in listeners:
        if listener.name == wanted:
            return listener
    known = ", ".join(one.name for one in listeners)
    raise ConfigError(f"inter.broker.listener.name={wanted}: listeners has {known}")


def peer_security(
    config: CoordinatorConfig, listener: Listener, tls: ListenerTls | None
) -> PeerSecurity:
    """What the settings of the listener say. `tls`: its TLS, if it has any. Raises ConfigError."""
    if tls is not None:
        tls.client_context()
    return PeerSecurity(
        tls=None if tls is None else tls.client_context,
        login=_login(config, listener) if listener.protocol.sasl else None,
    )


def _login(config: CoordinatorConfig, listener: Listener) -> Callable[[], Login]:
    own = listener_config(config, listener.name)
    mechanism = config.sasl_mechanism_inter_broker_protocol or next(
        (name for name in own.sasl_enabled_mechanisms if name in _MECHANISMS), PLAIN
    )
    if mechanism not in _MECHANISMS or mechanism not in own.sasl_enabled_mechanisms:
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={mechanism}: must be one of "
            f"{', '.join(_MECHANISMS)} that sasl.enabled.mechanisms of {listener.name} has"
        )
    key = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = listener_config(config, listener.name, mechanism).sasl_jaas_config
    options = parse_jaas(text, key).options if text else {}
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise ConfigError(f"{key}: needs username and password, with which nodes log in")
    return lambda: login(mechanism, password_exchange(mechanism, user, password))
