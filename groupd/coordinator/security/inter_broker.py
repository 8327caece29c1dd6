"""How a node authenticates to the other nodes of its cluster, as Kafka's brokers do: by the
settings of the listener that nodes use among each other.

With TLS it shows the listener's own certificate and trusts the CAs of `ssl.truststore...` (without
one, those of the system). With SASL it logs in as the `username` with the `password` of the login
module of `sasl.mechanism.inter.broker.protocol`.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.client.connection import ClientSecurity
from groupd.client.sasl import PASSWORD_MECHANISMS, PLAIN, SaslLogin, password_login
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.security.sasl.jaas import parse_jaas
from groupd.coordinator.security.tls import ListenerTls


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
) -> ClientSecurity:
    """The security of connections to other nodes, from the settings of the listener. `tls`: the
    listener's TLS, if it has any. Raises ConfigError."""
    if tls is not None:
        tls.client_context()
    return ClientSecurity(
        tls=None if tls is None else tls.client_context,
        login=_login(config, listener) if listener.protocol.sasl else None,
    )


def _login(config: CoordinatorConfig, listener: Listener) -> SaslLogin:
    own = listener_config(config, listener.name)
    mechanism = config.sasl_mechanism_inter_broker_protocol or next(
        (name for name in own.sasl_enabled_mechanisms if name in PASSWORD_MECHANISMS), PLAIN
    )
    if mechanism not in PASSWORD_MECHANISMS or mechanism not in own.sasl_enabled_mechanisms:
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={mechanism}: must be one of "
            f"{', '.join(PASSWORD_MECHANISMS)} that sasl.enabled.mechanisms of {listener.name} has"
        )
    key = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = listener_config(config, listener.name, mechanism).sasl_jaas_config
    options = parse_jaas(text, key).options if text else {}
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise ConfigError(f"{key}: needs username and password, with which nodes log in")
    return password_login(mechanism, user, password)
