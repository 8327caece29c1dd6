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
    from coordinator.testing.client_settings import client_config
    from coordinator.testing.errors import (
        HarnessError,
        InvariantViolation,
        RequestRefused,
        WaitTimeout,
    )
    from coordinator.testing.harness import GroupCoordinator
    from coordinator.testing.records import TestRecord

__all__ = [
    "BadRecording",
    "Difference",
    "GroupCoordinator",
    "HarnessError",
    "InvariantViolation",
    "RequestRefused",
    "TestRecord",
    "WaitTimeout",
    "client_config",
    "replay",
]

_HOMES = {
    "BadRecording": "coordinator.recording.reader",
    "Difference": "coordinator.recording.difference",
    "GroupCoordinator": "coordinator.testing.harness",
    "TestRecord": "coordinator.testing.records",
    "client_config": "coordinator.testing.client_settings",
    "replay": "coordinator.recording.replay",
    **dict.fromkeys(
        ("HarnessError", "InvariantViolation", "RequestRefused", "WaitTimeout"),
        "coordinator.testing.errors",
    ),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
