"""Assignments in slices, where the assignor makes some."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    PartitionAssignor,
    TopicDescriber,
)


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
