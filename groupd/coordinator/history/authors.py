"""Who probably made a commit, derived from the state of the group at that point of the log.

A commit record names no member. If the group had no members, the commit came from a tool, an
operator or a simple consumer. Otherwise it came most likely from the member that the partition was
assigned to.
"""

from __future__ import annotations

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import GroupPartition
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.history.changes import Actor, Author
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.schema import RecordKey

_NOWHERE: frozenset[GroupPartition] = frozenset()


class Authors:
    """Finds the owners of partitions with an index, which is updated after each record of the
    group. A member's record costs time in proportion to its assignment, not to the whole group."""

    def __init__(self) -> None:
        self._group: Group | None = None
        self._places: dict[str, frozenset[GroupPartition]] = {}
        self._claims: dict[GroupPartition, list[str]] = {}

    def group_changed(self, group: Group | None, key: RecordKey) -> None:
        """Update the index: `group` is the state after a record with `key`."""
        if group is not self._group:
            self._group = group
            self._places.clear()
            self._claims.clear()
            for member_id in () if group is None else group.members:
                self._update(group, member_id)
            return
        changed: str | None = getattr(key, "member_id", None)
        if changed is not None:
            self._update(group, changed)

    def _update(self, group: Group | None, member_id: str) -> None:
        known = group is not None and member_id in group.members
        found = _places(group, member_id) if group is not None and known else _NOWHERE
        if found == self._places.get(member_id, _NOWHERE):
            return
        for place in self._places.pop(member_id, _NOWHERE):
            claims = self._claims[place]
            claims.remove(member_id)
            if not claims:
                del self._claims[place]
        if found:
            self._places[member_id] = found
        for place in found:
            self._claims.setdefault(place, []).append(member_id)

    def _owner(self, place: GroupPartition) -> str | None:
        """Returns the owner of a partition. If there are several, it is the last by id, so that the
        result does not depend on the order of records."""
        claims = self._claims.get(place)
        return max(claims) if claims else None

    def of(self, group: Group | None, topic: str, topic_id: TopicId, partition: int) -> Author:
        """Returns the likely author of a commit on a partition."""
        if group is None or group.is_empty():
            return Author(Actor.ADMIN)
        owner = self._owner((topic, partition))
        # A commit without a topic id may belong to another topic with the same name.
        if owner is None and topic_id != NO_TOPIC_ID:
            owner = self._owner((topic_id, partition))
        if owner is None:
            return Author(Actor.UNKNOWN, epoch=group.epoch)
        who = type_of(group).identify(group, owner)
        return Author(
            Actor.OWNER, owner, who.instance_id, who.client_id, who.client_host, who.epoch
        )


def _places(group: Group, member_id: str) -> frozenset[GroupPartition]:
    holdings = type_of(group).owned_partitions(group, member_id)
    return frozenset((topic, number) for topic, numbers in holdings for number in numbers)
