"""Metrics of rights and quotas."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.families import gauge
from groupd.coordinator.security.quota_entities import KEYS
from groupd.coordinator.security.security import Security


class SecurityCollector(Collector):
    """What the authorizer has answered, and how often and for how long clients had to wait."""

    def __init__(self, security: Security) -> None:
        self._authorizer = security.authorizer
        self._quotas = security.quotas

    def collect(self) -> Iterable[Metric]:
        yield from self._rights()
        yield from self._waits()

    def _rights(self) -> Iterable[Metric]:
        authorizer = self._authorizer
        answers = CounterMetricFamily(
            "groupd_authorizations", "Questions about rights, by answer.", labels=["result"]
        )
        answers.add_metric(["allowed"], authorizer.allowed)
        answers.add_metric(["denied"], authorizer.denied)
        yield answers
        yield gauge("groupd_acls", "ACLs that there are.", len(authorizer.acls))

    def _waits(self) -> Iterable[Metric]:
        quotas = self._quotas
        often = CounterMetricFamily(
            "groupd_throttled", "How often clients had to wait, by quota.", labels=["quota"]
        )
        long = CounterMetricFamily(
            "groupd_throttle_seconds", "How long they had to wait.", labels=["quota"]
        )
        for key in KEYS:
            often.add_metric([key], quotas.throttled[key])
            long.add_metric([key], quotas.throttled_ms[key] / 1000)
        yield often
        yield long
        yield gauge("groupd_quotas", "Entities that have quotas.", len(quotas.entries))
        yield gauge("groupd_quota_sensors", "Clients of which usage is known.", quotas.sensors)
