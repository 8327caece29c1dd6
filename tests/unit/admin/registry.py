"""The metrics of a broker that has no transactions."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast
from unittest.mock import Mock

from groupd.coordinator.admin.metrics import MetricsRegistry, make_registry
from groupd.coordinator.admin.rates import Beginning
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.server.connection_stats import ConnectionStats


def registry_of(broker: Broker) -> MetricsRegistry:
    markers = Mock(written=0, retries=0)
    transactions = Mock(shards={}, marker_counts=markers, counts=Counter())
    return make_registry(
        broker, ConnectionStats(), cast(Any, transactions), (), Beginning(broker.clock)
    )
