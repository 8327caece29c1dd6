"""Runs an assignor, which may be a plug-in and raise anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    PartitionAssignor,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.spec import AssignmentSpec
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.slices import Steps

TargetCheck = Callable[[Any, AssignmentSpec, TopicDescriber], Steps[dict[str, Assignment]]]
"""Checks the result of an assignor; returns the assignment of every member. Raises AssignorError,
which names the first fault."""


def assigned_steps(
    assignor: PartitionAssignor,
    name: str,
    spec: AssignmentSpec,
    topics: TopicDescriber,
    check: TargetCheck,
) -> Steps[dict[str, Assignment]]:
    """Returns the checked assignment of every member; yields between slices. Raises AssignorFailed
    if the assignor raises or its result is not accepted."""
    try:
        result = yield from _assign_steps(assignor, spec, topics)
        yield
        return (yield from check(result, spec, topics))
    except AssignorError as error:
        raise AssignorFailed(name, str(error)) from error
    except Exception as error:
        # A plug-in may raise anything. Only this operation fails, not the shard.
        raise AssignorFailed(name, f"{type(error).__name__}: {error}") from error


def _assign_steps(
    assignor: PartitionAssignor, spec: AssignmentSpec, topics: TopicDescriber
) -> Steps[Mapping[str, Assignment]]:
    """Runs `assign_steps`, which is optional, in slices, or else `assign` in one go."""
    steps = getattr(assignor, "assign_steps", None)
    if steps is None:
        return assignor.assign(spec, topics)
    result: Mapping[str, Assignment] = yield from steps(spec, topics)
    return result
