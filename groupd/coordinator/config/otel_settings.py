"""The settings of OpenTelemetry: where traces of rebalances go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from groupd.coordinator.config.settings import ConfigError, setting

FROM_ENVIRONMENT = "environment"
"""An endpoint that stands in the environment, where OpenTelemetry's own variables say it."""


@dataclass(frozen=True)
class OtelSettings:
    """Traces go out as OTLP over HTTP."""

    # OpenTelemetry
    otel_traces_endpoint: str = setting(
        "groupd.otel.traces.endpoint",
        "",
        "URL of an OTLP/HTTP receiver, which gets a trace of each rebalance; such as "
        "http://127.0.0.1:4318/v1/traces. environment = the one that the variables "
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT name; empty = no "
        "traces. Needs the extra groupd[otel].",
    )
    otel_traces_headers: str = setting(
        "groupd.otel.traces.headers",
        "",
        "Headers of the requests to that receiver: name=value, with commas between, and values "
        "percent-encoded as in OTEL_EXPORTER_OTLP_HEADERS, to which they are added.",
        sensitive=True,
    )
    otel_traces_per_second: int = setting(
        "groupd.otel.traces.per.second",
        10,
        "Most rebalances of a process that begin a trace in one second; the rest is left out, and "
        "the next trace says how many.",
        low=1,
        high=1000,
    )
    otel_service_name: str = setting(
        "groupd.otel.service.name",
        "",
        "The service.name of the traces; empty = what OTEL_SERVICE_NAME or "
        "OTEL_RESOURCE_ATTRIBUTES say, or else groupd.",
    )


def parse_headers(text: str) -> Mapping[str, str]:
    """Raises ConfigError, which does not show what may be secret."""
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


def check_otel(settings: OtelSettings) -> None:
    """Raises ConfigError."""
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
