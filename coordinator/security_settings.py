"""The settings of listeners, TLS, authentication, rights and quotas."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.settings import ConfigError, setting

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
