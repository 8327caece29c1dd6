"""Metrics of rights."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.security.authorizer import Authorizer
from groupd.coordinator.server.families import gauge


class RightsCollector(Collector):
    """What the authorizer has answered."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def collect(self) -> Iterable[Metric]:
        authorizer = self._authorizer
        answers = CounterMetricFamily(
            "groupd_authorizations", "Questions about rights, by answer.", labels=["result"]
        )
        answers.add_metric(["allowed"], authorizer.allowed)
        answers.add_metric(["denied"], authorizer.denied)
        yield answers
        yield gauge("groupd_acls", "ACLs that there are.", len(authorizer.acls))
