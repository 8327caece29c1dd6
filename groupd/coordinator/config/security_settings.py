"""The settings of listeners, TLS, authentication, rights and quotas."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import ConfigError, setting

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `CoordinatorConfig` makes them
class SecuritySettings:
    """Listeners, logins, rights and quotas."""

    # Listeners
    listeners: tuple[str, ...] = setting("listeners", ())
    advertised_listeners: tuple[str, ...] = setting("advertised.listeners", ())
    listener_security_protocol_map: tuple[str, ...] = setting(
        "listener.security.protocol.map",
        (
            "PLAINTEXT:PLAINTEXT",
            "SSL:SSL",
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "SASL_SSL:SASL_SSL",
        ),
    )
    inter_broker_listener_name: str = setting("inter.broker.listener.name", "")
    # TLS
    ssl_keystore_location: str = setting("ssl.keystore.location", "")
    ssl_keystore_certificate_chain: str = setting("ssl.keystore.certificate.chain", "")
    ssl_keystore_key: str = setting("ssl.keystore.key", "", sensitive=True)
    ssl_key_password: str = setting("ssl.key.password", "", sensitive=True)
    ssl_truststore_location: str = setting("ssl.truststore.location", "")
    ssl_truststore_certificates: str = setting("ssl.truststore.certificates", "")
    ssl_client_auth: str = setting(
        "ssl.client.auth", "none", choices=("none", "requested", "required")
    )
    ssl_principal_mapping_rules: str = setting("ssl.principal.mapping.rules", "DEFAULT")
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3")
    )
    ssl_protocol: str = setting("ssl.protocol", "TLSv1.3")
    ssl_cipher_suites: tuple[str, ...] = setting("ssl.cipher.suites", ())
    ssl_allow_dn_changes: bool = setting("ssl.allow.dn.changes", False)
    ssl_allow_san_changes: bool = setting("ssl.allow.san.changes", False)
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm", "https"
    )
    # Authentication
    sasl_enabled_mechanisms: tuple[str, ...] = setting("sasl.enabled.mechanisms", ())
    sasl_jaas_config: str = setting("sasl.jaas.config", "", sensitive=True)
    sasl_mechanism_inter_broker_protocol: str = setting("sasl.mechanism.inter.broker.protocol", "")
    connections_max_reauth_ms: int = setting("connections.max.reauth.ms", 0, low=0)
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms", 100, low=0
    )
    authentication_failures_per_ip: int = setting(
        "groupd.authentication.failures.per.ip", 500, low=0
    )
    authentication_failures_per_user: int = setting(
        "groupd.authentication.failures.per.user", 20, low=0
    )
    oauthbearer_jwks_endpoint_url: str = setting("sasl.oauthbearer.jwks.endpoint.url", "")
    oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000, low=1000
    )
    oauthbearer_expected_audience: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience", ()
    )
    oauthbearer_expected_issuer: str = setting("sasl.oauthbearer.expected.issuer", "")
    oauthbearer_allow_unverified_audience: bool = setting(
        "sasl.oauthbearer.allow.unverified.audience", False
    )
    oauthbearer_allow_unverified_issuer: bool = setting(
        "sasl.oauthbearer.allow.unverified.issuer", False
    )
    oauthbearer_clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds", 30, low=0, high=3600
    )
    oauthbearer_sub_claim_name: str = setting("sasl.oauthbearer.sub.claim.name", "sub")

    # Quotas
    max_connection_creation_rate: int = setting("max.connection.creation.rate", 2**31 - 1, low=1)

    # Users
    scram_users_file: str = setting("groupd.scram.users.file", "")

    # Rights
    authorizer_class_name: str = setting("authorizer.class.name", "")
    super_users: str = setting("super.users", "")
    allow_everyone_if_no_acl_found: bool = setting("allow.everyone.if.no.acl.found", False)


def super_users(settings: SecuritySettings) -> frozenset[str]:
    """The principals of `super.users`. Raises ConfigError."""
    names = [name.strip() for name in settings.super_users.split(";")]
    for name in names:
        if name and ":" not in name:
            raise ConfigError(f"super.users={name}: a principal has a type, such as User:{name}")
    return frozenset(filter(None, names))


def check_rights(settings: SecuritySettings) -> None:
    """Check the settings about rights. Raises ConfigError."""
    super_users(settings)
    if settings.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(
            f"authorizer.class.name={settings.authorizer_class_name}: must be "
            f"{STANDARD_AUTHORIZER}, or empty for none"
        )
