"""The settings of what groupd shows to operators: the admin port, the lag of groups, and traces,
which are sent as OTLP over HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from groupd.coordinator.config.settings import ConfigError, setting

FROM_ENVIRONMENT = "environment"
"""The value of the endpoint that means: use OpenTelemetry's own environment variables."""


@dataclass(frozen=True)
class AdminSettings:
    """The admin port, the lag of groups, and traces."""

    # The admin port
    admin_hosts: tuple[str, ...] = setting("groupd.admin.hosts", ())
    admin_authentication: str = setting(
        "groupd.admin.authentication", "remote", choices=("remote", "always", "none")
    )
    admin_token_file: str = setting("groupd.admin.token.file", "")
    admin_metrics_open: bool = setting("groupd.admin.metrics.open", False)
    admin_ssl_keystore_location: str = setting("groupd.admin.ssl.keystore.location", "")
    admin_ssl_key_password: str = setting("groupd.admin.ssl.key.password", "", sensitive=True)
    admin_ssl_truststore_location: str = setting("groupd.admin.ssl.truststore.location", "")
    admin_ssl_client_auth: str = setting(
        "groupd.admin.ssl.client.auth", "none", choices=("none", "requested", "required")
    )
    admin_ssl_roles: str = setting("groupd.admin.ssl.roles", "")
    # The lag of groups
    lag_interval_ms: int = setting("groupd.lag.interval.ms", 10000, low=100, high=3600000)
    metrics_lag: str = setting(
        "groupd.metrics.lag", "partition", choices=("partition", "topic", "group", "none")
    )
    metrics_lag_series_max: int = setting("groupd.metrics.lag.series.max", 20000, low=0)
    # OpenTelemetry
    otel_traces_endpoint: str = setting("groupd.otel.traces.endpoint", "")
    otel_traces_headers: str = setting("groupd.otel.traces.headers", "", sensitive=True)


def parse_headers(text: str) -> Mapping[str, str]:
    """The headers in `text`, by name. Raises ConfigError, which shows no value because it may be
    secret."""
    found: dict[str, str] = {}
    for pair in filter(str.strip, text.split(",")):
        name, equals, value = pair.partition("=")
        name, value = unquote(name.strip()), unquote(value.strip())
        valid = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not equals or not valid or not value.isprintable() or not value.isascii():
            raise ConfigError(
                "groupd.otel.traces.headers: must be name=value pairs with commas between, and "
                "values percent-encoded"
            )
        found[name] = value
    return found


def check_otel(settings: AdminSettings) -> None:
    """Raises ConfigError if the settings of traces are wrong."""
    endpoint = settings.otel_traces_endpoint
    parse_headers(settings.otel_traces_headers)
    if endpoint in ("", FROM_ENVIRONMENT):
        return
    try:
        url = urlsplit(endpoint)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if usable and "@" in url.netloc:
        raise ConfigError(
            "groupd.otel.traces.endpoint: must not hold credentials, which /config would show; "
            "use groupd.otel.traces.headers"
        )
    if not usable or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise ConfigError(
            f"groupd.otel.traces.endpoint={endpoint}: must be a URL such as "
            "http://127.0.0.1:4318/v1/traces, or environment"
        )
