"""groupd as the integration-test harness for consumer code; the reference is docs/testing.md.

Everything is imported on first use, because the pytest plugin is in this package: a test run that
does not use groupd must not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupd.coordinator.faults.errors import HarnessError as HarnessError
    from groupd.coordinator.faults.errors import InvariantViolation as InvariantViolation
    from groupd.coordinator.faults.errors import NotFound as NotFound
    from groupd.coordinator.faults.errors import RequestRefused as RequestRefused
    from groupd.coordinator.faults.errors import WaitTimeout as WaitTimeout
    from groupd.coordinator.faults.errors import WrongType as WrongType
    from groupd.coordinator.recording.difference import Difference as Difference
    from groupd.coordinator.recording.reader import BadRecording as BadRecording
    from groupd.coordinator.recording.replay import replay as replay
    from groupd.testing.answers import GroupDescription as GroupDescription
    from groupd.testing.answers import GroupEvent as GroupEvent
    from groupd.testing.answers import GroupSummary as GroupSummary
    from groupd.testing.answers import Member as Member
    from groupd.testing.answers import RecipeResult as RecipeResult
    from groupd.testing.answers import ShareRecord as ShareRecord
    from groupd.testing.client_settings import client_config as client_config
    from groupd.testing.handles import FaultHandle as FaultHandle
    from groupd.testing.handles import Incident as Incident
    from groupd.testing.harness import GroupCoordinator as GroupCoordinator
    from groupd.testing.harness import GroupCoordinatorFactory as GroupCoordinatorFactory
    from groupd.testing.records import TestRecord as TestRecord
    from groupd.testing.share_handles import ShareHandle as ShareHandle

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
        "ShareRecord",
    ),
    "groupd.testing.handles": (
        "FaultHandle",
        "Incident",
    ),
    "groupd.testing.harness": ("GroupCoordinator", "GroupCoordinatorFactory"),
    "groupd.testing.records": ("TestRecord",),
    "groupd.testing.share_handles": ("ShareHandle",),
    "groupd.testing.client_settings": ("client_config",),
    "groupd.coordinator.recording.reader": ("BadRecording",),
    "groupd.coordinator.recording.difference": ("Difference",),
    "groupd.coordinator.recording.replay": ("replay",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
