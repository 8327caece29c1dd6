"""Prometheus metrics of what clients have pushed."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.server.families import gauge, total
from groupd.coordinator.topics.telemetry import Telemetry


class TelemetryCollector(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterable[Metric]:
        telemetry = self._telemetry
        yield gauge("groupd_telemetry_clients", "Clients known by telemetry.", telemetry.clients)
        yield total("groupd_telemetry_pushes", "Pushes of clients' metrics.", telemetry.pushes)
        yield total("groupd_telemetry_bytes", "Bytes of metrics pushed.", telemetry.bytes)
        yield total(
            "groupd_telemetry_refused", "Telemetry requests that were refused.", telemetry.refused
        )
