"""groupd as the integration-test harness for consumer code; the reference is docs/testing.md.

Everything is imported on first use: the pytest plugin lives in this package and must cost a test
run that does not use it nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.recording.difference import Difference
    from coordinator.recording.reader import BadRecording
    from coordinator.recording.replay import replay
    from coordinator.testing.answers import (
        GroupDescription,
        GroupEvent,
        GroupSummary,
        Member,
        RecipeResult,
    )
    from coordinator.testing.client_settings import client_config
    from coordinator.testing.errors import (
        HarnessError,
        InvariantViolation,
        NotFound,
        RequestRefused,
        WaitTimeout,
        WrongType,
    )
    from coordinator.testing.handles import FaultHandle, Incident
    from coordinator.testing.harness import GroupCoordinator
    from coordinator.testing.records import TestRecord
    from coordinator.testing.starting import GroupCoordinatorFactory

__all__ = [
    "BadRecording",
    "Difference",
    "FaultHandle",
    "GroupCoordinator",
    "GroupCoordinatorFactory",
    "GroupDescription",
    "GroupEvent",
    "GroupSummary",
    "HarnessError",
    "Incident",
    "InvariantViolation",
    "Member",
    "NotFound",
    "RecipeResult",
    "RequestRefused",
    "TestRecord",
    "WaitTimeout",
    "WrongType",
    "client_config",
    "replay",
]

_NAMES = {
    "coordinator.testing.errors": (
        "HarnessError",
        "InvariantViolation",
        "NotFound",
        "RequestRefused",
        "WaitTimeout",
        "WrongType",
    ),
    "coordinator.testing.answers": (
        "GroupDescription",
        "GroupEvent",
        "GroupSummary",
        "Member",
        "RecipeResult",
    ),
    "coordinator.testing.handles": (
        "FaultHandle",
        "Incident",
    ),
    "coordinator.testing.harness": ("GroupCoordinator",),
    "coordinator.testing.starting": ("GroupCoordinatorFactory",),
    "coordinator.testing.records": ("TestRecord",),
    "coordinator.testing.client_settings": ("client_config",),
    "coordinator.recording.reader": ("BadRecording",),
    "coordinator.recording.difference": ("Difference",),
    "coordinator.recording.replay": ("replay",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
