"""The settings of the admin port: who may read it, over what."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.settings import setting


@dataclass(frozen=True)
class AdminSettings:
    """Names, credentials and TLS of the admin port."""

    # The admin port
    admin_hosts: tuple[str, ...] = setting(
        "groupd.admin.hosts",
        (),
        "Host names by which the admin port is reached, besides localhost and those in --admin and "
        "--advertised. IP addresses need no entry, and /healthz, /readyz and /metrics answer by "
        "any name.",
    )
    admin_authentication: str = setting(
        "groupd.admin.authentication",
        "remote",
        "Of whom the admin port asks credentials before it shows anything but /healthz and "
        "/readyz: remote = of everybody, unless --admin is a loopback address; always; none = of "
        "nobody.",
        choices=("remote", "always", "none"),
    )
    admin_token_file: str = setting(
        "groupd.admin.token.file",
        "",
        "File with the tokens of the admin port: lines with a role (read or admin) and a token of "
        "16 characters or more. Only its owner may read it. It is read again when it has changed.",
    )
    admin_metrics_open: bool = setting(
        "groupd.admin.metrics.open", False, "Whether /metrics is shown without credentials."
    )
    admin_ssl_keystore_location: str = setting(
        "groupd.admin.ssl.keystore.location",
        "",
        "PEM file with the certificate chain and the key of the admin port, which then speaks TLS.",
    )
    admin_ssl_key_password: str = setting(
        "groupd.admin.ssl.key.password",
        "",
        "Password of an encrypted key in that file.",
        sensitive=True,
    )
    admin_ssl_truststore_location: str = setting(
        "groupd.admin.ssl.truststore.location",
        "",
        "PEM file with the authorities that may sign certificates of clients of the admin port.",
    )
    admin_ssl_client_auth: str = setting(
        "groupd.admin.ssl.client.auth",
        "none",
        "Whether clients of the admin port show a certificate. With required, health checks need "
        "one, too.",
        choices=("none", "requested", "required"),
    )
    admin_ssl_roles: str = setting(
        "groupd.admin.ssl.roles",
        "",
        "The role of each client certificate, by its subject, with semicolons between: "
        "admin:CN=ops,O=Acme;read:CN=prometheus. Other certificates have no role.",
    )
