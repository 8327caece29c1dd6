"""groupd as the integration-test harness for consumer code; the reference is docs/testing.md.

Everything is imported on first use, because the pytest plugin is in this package: a test run that
does not use groupd must not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupd.coordinator.faults.errors import (
        HarnessError,
        InvariantViolation,
        NotFound,
        RequestRefused,
        WaitTimeout,
        WrongType,
    )
    from groupd.coordinator.recording.difference import Difference
    from groupd.coordinator.recording.reader import BadRecording
    from groupd.coordinator.recording.replay import replay
    from groupd.testing.answers import (
        GroupDescription,
        GroupEvent,
        GroupSummary,
        Member,
        RecipeResult,
    )
    from groupd.testing.client_settings import client_config
    from groupd.testing.handles import FaultHandle, Incident
    from groupd.testing.harness import GroupCoordinator, GroupCoordinatorFactory
    from groupd.testing.records import TestRecord

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
    "groupd.coordinator.faults.errors": (
        "HarnessError",
        "InvariantViolation",
        "NotFound",
        "RequestRefused",
        "WaitTimeout",
        "WrongType",
    ),
    "groupd.testing.answers": (
        "GroupDescription",
        "GroupEvent",
        "GroupSummary",
        "Member",
        "RecipeResult",
    ),
    "groupd.testing.handles": (
        "FaultHandle",
        "Incident",
    ),
    "groupd.testing.harness": ("GroupCoordinator", "GroupCoordinatorFactory"),
    "groupd.testing.records": ("TestRecord",),
    "groupd.testing.client_settings": ("client_config",),
    "groupd.coordinator.recording.reader": ("BadRecording",),
    "groupd.coordinator.recording.difference": ("Difference",),
    "groupd.coordinator.recording.replay": ("replay",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
