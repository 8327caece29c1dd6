"""The settings of the admin port: who may read it, over what; and of the lag that it shows."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import setting


@dataclass(frozen=True)
class AdminSettings:
    """Names, credentials and TLS of the admin port; the lag of groups."""

    # The admin port
    admin_hosts: tuple[str, ...] = setting(
        "groupd.admin.hosts",
        (),
        "Host names by which the admin port is reached, such as the one by which Prometheus asks, "
        "besides localhost, the one in --admin and the one that clients are told (--advertised, or "
        "the first of advertised.listeners). IP addresses need no entry, and /healthz and "
        "/readyz answer by any name.",
    )
    admin_authentication: str = setting(
        "groupd.admin.authentication",
        "remote",
        "Of whom the admin port asks credentials before it shows anything but /healthz and "
        "/readyz: remote = of everybody, unless --admin is a loopback address; always; none = of "
        "nobody. Without any tokens and certificates of clients, whoever is not asked has the role "
        "admin.",
        choices=("remote", "always", "none"),
    )
    admin_token_file: str = setting(
        "groupd.admin.token.file",
        "",
        "File with the tokens of the admin port: lines with a role (read or admin) and a token of "
        "16 characters or more. Only its owner may read it. It is read again when it has changed.",
    )
    admin_metrics_open: bool = setting(
        "groupd.admin.metrics.open",
        False,
        "Whether /metrics is shown without credentials. The metrics about lag have the names of "
        "groups and topics; groupd.metrics.lag=none leaves them out.",
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
    # The lag of groups
    lag_interval_ms: int = setting(
        "groupd.lag.interval.ms",
        10000,
        "How often the admin port looks at the lag of all groups. A judgement looks back over ten "
        "times as long.",
        low=100,
        high=3600000,
    )
    lag_partitions_max: int = setting(
        "groupd.lag.partitions.max",
        200000,
        "Most partitions of groups that are looked at, each group's counted for itself. More are "
        "left out.",
        low=0,
    )
    metrics_lag: str = setting(
        "groupd.metrics.lag",
        "partition",
        "How closely /metrics shows lag: for every partition of every group, for every topic, for "
        "every group, or not at all.",
        choices=("partition", "topic", "group", "none"),
    )
    metrics_lag_series_max: int = setting(
        "groupd.metrics.lag.series.max",
        20000,
        "Most series about lag on /metrics. The groups with the most lag come first; how many "
        "series are left out is a metric itself.",
        low=0,
    )
