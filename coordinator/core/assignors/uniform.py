"""`uniform`: balance first, then as little movement as possible (assignors spec, 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    SubscriptionType,
    TopicDescriber,
)
from coordinator.core.assignors.order import CANONICAL, Order
from coordinator.core.assignors.uniform_heterogeneous import assign_heterogeneous
from coordinator.core.assignors.uniform_homogeneous import assign_homogeneous


class UniformAssignor:
    """Kafka's default assignor. `order`: `order.KAFKA` reproduces a Kafka broker's result."""

    __slots__ = ("_order",)

    name = "uniform"

    def __init__(self, order: Order = CANONICAL) -> None:
        self._order = order

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        if not spec.members:
            return {}
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return assign_homogeneous(spec, topics, self._order)
        return assign_heterogeneous(spec, topics, self._order)
