"""Events of target assignments, which consumer groups and share groups have alike."""

from __future__ import annotations

from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.types import Event, EventKind


def assignor_failed(
    type_name: str, group_id: str, member_id: str, failure: AssignorFailed
) -> Event:
    """`member_id`: the member whose request called the assignor, "" if it was a task."""
    return Event(
        type_name,
        EventKind.ASSIGNOR_FAILED,
        group_id,
        member_id,
        cause=failure.fault,
        details={"assignor": failure.assignor},
    )


def target_installed(
    type_name: str, group_id: str, epoch: int, assignor: str, *, moved: int, members: int
) -> Event:
    """`moved`: members whose target changes, out of `members`."""
    return Event(
        type_name,
        EventKind.TARGET_INSTALLED,
        group_id,
        epoch=epoch,
        cause=f"computed by {assignor}",
        details={"assignor": assignor, "moved_members": moved, "members": members},
    )
