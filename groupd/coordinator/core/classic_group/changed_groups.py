"""Classic groups that a handler has changed in place, until the record that says so is replayed.

Handlers of the classic protocol change their group themselves (ADR 7). So the replay of a record
that such a handler has made, which follows at once, does not build the group anew from the record:
it puts the changed object in its place. Soft state of the type.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group.group import TYPE_NAME, ClassicGroup
from groupd.coordinator.core.state import ShardState
from groupd.protocol.records.schema import GroupMetadataValue, Record


class ChangedGroups:
    """By record, oldest first; hardly ever more than one."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: list[tuple[object, ClassicGroup]] = []

    def note(self, record: Record, group: ClassicGroup) -> None:
        """`group` is what `record` says already."""
        self._noted.append((record.value, group))

    def take(self, value: GroupMetadataValue) -> ClassicGroup | None:
        """The group that a handler has noted with the record of this value. Those noted before it
        go, too: their records were refused."""
        for index, (noted, group) in enumerate(self._noted):
            if noted is value:
                del self._noted[: index + 1]
                return group
        return None


def changed_groups(state: ShardState) -> ChangedGroups:
    """Those of a shard. Tools that only replay a log keep no soft state: there it is made here."""
    found: ChangedGroups = state.soft.setdefault(TYPE_NAME, ChangedGroups())
    return found
