"""Long work in slices: generators that stop where others may have their turn."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

from coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    PartitionAssignor,
    TopicDescriber,
)

T = TypeVar("T")


def run_through(steps: Generator[None, None, T]) -> T:
    """What `steps` returns, without a stop."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def assign_steps(
    assignor: PartitionAssignor, spec: GroupSpec, topics: TopicDescriber
) -> Generator[None, None, Mapping[str, Assignment]]:
    """`assignor.assign` in the slices that its optional method `assign_steps` makes, else at
    once."""
    steps = getattr(assignor, "assign_steps", None)
    if steps is None:
        return assignor.assign(spec, topics)
    result: Mapping[str, Assignment] = yield from steps(spec, topics)
    return result
