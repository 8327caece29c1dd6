"""`uniform`: balance first, then as few moves as possible (docs/spec/assignors.md#4 and
docs/spec/assignors.md#5)."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.order import CANONICAL, Order
from groupd.coordinator.core.assignors.uniform_heterogeneous import heterogeneous_steps
from groupd.coordinator.core.assignors.uniform_homogeneous import homogeneous_steps
from groupd.coordinator.core.slices import Steps, run_through


class UniformAssignor:
    """Kafka's default assignor. With the order `order.KAFKA` it gives a Kafka broker's result."""

    __slots__ = ("_order",)

    name = "uniform"

    def __init__(self, order: Order = CANONICAL) -> None:
        self._order = order

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return run_through(self.assign_steps(spec, topics))

    def assign_steps(
        self, spec: GroupSpec, topics: TopicDescriber
    ) -> Steps[Mapping[str, Assignment]]:
        """`assign` in slices."""
        if not spec.members:
            return {}
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return (yield from homogeneous_steps(spec, topics, self._order))
        return (yield from heterogeneous_steps(spec, topics, self._order))
