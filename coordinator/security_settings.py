"""The settings of listeners, TLS, authentication, rights and quotas."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.settings import setting


@dataclass(frozen=True)
class SecuritySettings:
    """Where clients connect to, how they prove who they are, and what they may do."""

    # Listeners
    listeners: tuple[str, ...] = setting(
        "listeners",
        (),
        "Where clients connect to: NAME://HOST:PORT, several with commas between. NAME is a "
        "security protocol (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) or stands in "
        "listener.security.protocol.map; no host: all interfaces; port 0: any free one. Takes the "
        "place of --listen.",
    )
    advertised_listeners: tuple[str, ...] = setting(
        "advertised.listeners",
        (),
        "The address that clients of each listener are told, as in listeners; where one is "
        "missing, that of listeners.",
    )
    listener_security_protocol_map: tuple[str, ...] = setting(
        "listener.security.protocol.map",
        (
            "PLAINTEXT:PLAINTEXT",
            "SSL:SSL",
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "SASL_SSL:SASL_SSL",
        ),
        "The security protocol of each name in listeners: EXTERNAL:SASL_SSL,INTERNAL:PLAINTEXT.",
    )
