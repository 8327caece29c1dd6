"""The settings of listeners, TLS, authentication, rights and quotas."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import ConfigError, setting

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


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
    inter_broker_listener_name: str = setting(
        "inter.broker.listener.name",
        "",
        "The listener over which the nodes of a cluster talk to each other; empty: the first one.",
    )
    # TLS
    ssl_keystore_location: str = setting(
        "ssl.keystore.location",
        "",
        "A PEM file with the certificate of the broker, those that lead to its CA, and its private "
        "key. Read again when it changes, and at SIGHUP.",
    )
    ssl_keystore_type: str = setting("ssl.keystore.type", "PEM", "Only PEM is served.")
    ssl_keystore_certificate_chain: str = setting(
        "ssl.keystore.certificate.chain",
        "",
        "The certificates themselves as PEM, instead of ssl.keystore.location.",
    )
    ssl_keystore_key: str = setting(
        "ssl.keystore.key",
        "",
        "The private key itself as PEM, with ssl.keystore.certificate.chain.",
        sensitive=True,
    )
    ssl_key_password: str = setting(
        "ssl.key.password", "", "The password of an encrypted private key.", sensitive=True
    )
    ssl_truststore_location: str = setting(
        "ssl.truststore.location",
        "",
        "A PEM file with the CAs that sign the certificates of clients and of other nodes, or with "
        "those certificates themselves. Read again like ssl.keystore.location.",
    )
    ssl_truststore_type: str = setting("ssl.truststore.type", "PEM", "Only PEM is served.")
    ssl_truststore_certificates: str = setting(
        "ssl.truststore.certificates",
        "",
        "The same certificates as PEM, instead of ssl.truststore.location.",
    )
    ssl_client_auth: str = setting(
        "ssl.client.auth",
        "none",
        "Whether clients show a certificate; requested: it is checked if there is one. A SASL_SSL "
        "listener only heeds listener.name.NAME.ssl.client.auth.",
        choices=("none", "requested", "required"),
    )
    ssl_principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the subject of a client's certificate becomes its principal: DEFAULT, the whole "
        "subject, or RULE:pattern/replacement/ with an L (lower case) or U (upper case) after it; "
        "several with commas between, the first that matches counts.",
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "Versions of TLS that clients may use."
    )
    ssl_protocol: str = setting("ssl.protocol", "TLSv1.3", "The highest version of TLS.")
    ssl_cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        "Cipher suites by their IANA names; none: OpenSSL's choice. Without one of TLS 1.3 that "
        "version is off; with one, all of its suites are on.",
    )
    ssl_allow_dn_changes: bool = setting(
        "ssl.allow.dn.changes",
        False,
        "Whether a certificate that is read again may have another subject.",
    )
    ssl_allow_san_changes: bool = setting(
        "ssl.allow.san.changes",
        False,
        "Whether a certificate that is read again may lack alternative names of the old one.",
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        "https: a node of a cluster checks that the certificate of another node has its host name; "
        "empty: it does not. Host names of clients are never checked.",
    )
    tls_handshakes_max: int = setting(
        "groupd.tls.handshakes.max",
        500,
        "Most TLS handshakes under way at once. Further clients wait; while they do, the oldest "
        "handshake of the address with most makes room for those of other addresses at once, and "
        "for those of its own when it has lasted a fortieth of its time.",
        low=1,
    )
    tls_handshake_timeout_ms: int = setting(
        "groupd.tls.handshake.timeout.ms",
        10000,
        "Time from the connection to the end of the TLS handshake.",
        low=1,
    )
    tls_reload_interval_ms: int = setting(
        "groupd.tls.reload.interval.ms",
        10000,
        "How often the files of certificates are looked at.",
        low=100,
    )
    # Authentication
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        (),
        "By which mechanisms clients of a SASL listener may say who they are: PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Such a listener must have one.",
    )
    sasl_jaas_config: str = setting(
        "sasl.jaas.config",
        "",
        "The login module of one mechanism of one listener, with the users of PLAIN: "
        "listener.name.NAME.plain.sasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";',
        sensitive=True,
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        "sasl.mechanism.inter.broker.protocol",
        "",
        "By which mechanism a node of a cluster logs in to another: PLAIN, SCRAM-SHA-256 or "
        "SCRAM-SHA-512, as username and password in that mechanism's sasl.jaas.config; empty: the "
        "first of these in sasl.enabled.mechanisms.",
    )
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size",
        524288,
        "Largest frame before a client has said who it is.",
        low=1024,
    )
    connections_max_reauth_ms: int = setting(
        "connections.max.reauth.ms",
        0,
        "How long an authentication counts; a client that has not authenticated again by then is "
        "closed at its next request. 0: for ever, or as long as a token does.",
        low=0,
    )
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a failed authentication waits; less than connections.max.idle.ms.",
        low=0,
    )
    authentication_timeout_ms: int = setting(
        "groupd.authentication.timeout.ms",
        30000,
        "A client that has not said who it is for so long is closed.",
        low=100,
    )
    authentication_failures_per_ip: int = setting(
        "groupd.authentication.failures.per.ip",
        500,
        "Wrong passwords of one address, or of one /64 subnet of IPv6, in ten seconds. Beyond "
        "that, users that have not logged in from there in the last seven days wait for the answer "
        "to a login; if that would take more than three seconds, they are closed without one. 0: "
        "no limit.",
        low=0,
    )
    authentication_failures_per_user: int = setting(
        "groupd.authentication.failures.per.user",
        20,
        "Wrong passwords for one user of one address, or of one /64 subnet of IPv6, in ten "
        "seconds. Beyond that, logins from there as this user wait in the same way. 0: no limit.",
        low=0,
    )
    oauthbearer_jwks_endpoint_url: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "The keys with which OAUTHBEARER tokens are signed: file:///... or https://...",
    )
    oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3600000,
        "How often the keys behind an https address are fetched.",
        low=1000,
    )
    oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "Pause before the keys are fetched again after an error; each time twice as long.",
        low=1,
    )
    oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10000,
        "The longest such pause.",
        low=1,
    )
    oauthbearer_expected_audience: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        (),
        "One of these must be in the claim aud of a token.",
    )
    oauthbearer_expected_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer", "", "What the claim iss of a token must be."
    )
    oauthbearer_allow_unverified_audience: bool = setting(
        "sasl.oauthbearer.allow.unverified.audience",
        False,
        "Whether sasl.oauthbearer.expected.audience may be left out.",
    )
    oauthbearer_allow_unverified_issuer: bool = setting(
        "sasl.oauthbearer.allow.unverified.issuer",
        False,
        "Whether sasl.oauthbearer.expected.issuer may be left out.",
    )
    oauthbearer_clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "By how much the clock of the identity provider may differ.",
        low=0,
        high=3600,
    )
    oauthbearer_sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name", "sub", "The claim that names the user."
    )
    oauthbearer_scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name", "scope", "The claim with the scope."
    )

    # Quotas
    quota_window_num: int = setting(
        "quota.window.num", 11, "Samples that make up the rate of a client.", low=2, high=1000
    )
    quota_window_size_seconds: int = setting(
        "quota.window.size.seconds", 1, "Time of each sample.", low=1, high=3600
    )
    controller_quota_window_num: int = setting(
        "controller.quota.window.num",
        11,
        "How much of controller_mutation_rate may be used at once, in samples.",
        low=1,
        high=1000,
    )
    controller_quota_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds", 1, "Time of each such sample.", low=1, high=3600
    )
    quotas_max: int = setting(
        "groupd.quotas.max", 50000, "Most entities with quotas.", low=0, high=1000000
    )
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate",
        2**31 - 1,
        "Connections that may be opened in a second; others have to wait, for one "
        "quota.window.size.seconds at most.",
        low=1,
    )

    # Users
    scram_users_max: int = setting(
        "groupd.scram.users.max", 50000, "Most users that log in with SCRAM.", low=0, high=1000000
    )
    scram_users_file: str = setting(
        "groupd.scram.users.file",
        "",
        "A file with users that are made at the start unless they are there, one in each line: "
        "SCRAM-SHA-256=[name=admin,password=secret]. Only its owner may be able to read it.",
    )

    # Rights
    authorizer_class_name: str = setting(
        "authorizer.class.name",
        "",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer: clients may do what the ACLs "
        "allow. Empty: everybody may do everything.",
    )
    super_users: str = setting(
        "super.users",
        "",
        "Principals that may do everything whatever the ACLs say: User:admin;User:CN=a,O=b, with "
        "semicolons between.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether everybody may use a resource that no ACL is for.",
    )
    acls_max: int = setting("groupd.acls.max", 50000, "Most ACLs.", low=0, high=1000000)


def super_users(settings: SecuritySettings) -> frozenset[str]:
    """The principals of `super.users`. Raises ConfigError."""
    names = [name.strip() for name in settings.super_users.split(";")]
    for name in names:
        if name and ":" not in name:
            raise ConfigError(f"super.users={name}: a principal has a type, such as User:{name}")
    return frozenset(filter(None, names))


def check_rights(settings: SecuritySettings) -> None:
    """Rules of the settings about rights. Raises ConfigError."""
    super_users(settings)
    if settings.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(
            f"authorizer.class.name={settings.authorizer_class_name}: must be "
            f"{STANDARD_AUTHORIZER}, or empty for none"
        )
