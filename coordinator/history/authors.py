"""Who probably made a commit: derived from the group as the log had it at that point.

A commit record names no member. Of a group without members it can only be a tool, an operator or
a simple consumer; else whoever the partition was assigned to is the likely one.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.subscription import (
    MalformedSubscription,
    parse_assignment,
)
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.group import Group
from groupd.coordinator.history.changes import Actor, Author
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    RecordKey,
)

Place = tuple[str | TopicId, int]
"""A partition by topic name (classic groups) or by topic id (consumer groups)."""

_NOWHERE: frozenset[Place] = frozenset()


class Authors:
    """Looks owners up in an index that follows the group record by record: a member's record
    costs what its assignment costs, not what the group's does."""

    def __init__(self) -> None:
        self._group: Group | None = None
        self._places: dict[str, frozenset[Place]] = {}
        self._claims: dict[Place, list[str]] = {}

    def group_changed(self, group: Group | None, key: RecordKey) -> None:
        """`group` as it stands after a record with `key`."""
        if group is not self._group or isinstance(group, ClassicGroup):
            self._group = group
            self._places.clear()
            self._claims.clear()
            for member_id, places in _places(group).items():
                self._claim(member_id, places)
        elif isinstance(group, ConsumerGroup) and isinstance(
            key, ConsumerGroupMemberMetadataKey | ConsumerGroupCurrentMemberKey
        ):
            member = group.members.get(key.member_id)
            found = _NOWHERE if member is None else _owned(member)
            if found != self._places.get(key.member_id, _NOWHERE):
                self._release(key.member_id)
                self._claim(key.member_id, found)

    def _claim(self, member_id: str, places: frozenset[Place]) -> None:
        if places:
            self._places[member_id] = places
        for place in places:
            self._claims.setdefault(place, []).append(member_id)

    def _release(self, member_id: str) -> None:
        for place in self._places.pop(member_id, _NOWHERE):
            claims = self._claims[place]
            claims.remove(member_id)
            if not claims:
                del self._claims[place]

    def _owner(self, place: Place) -> str | None:
        """Of several the last by id, so that the answer does not depend on the way there."""
        claims = self._claims.get(place)
        return max(claims) if claims else None

    def of(self, group: Group | None, topic: str, topic_id: TopicId, partition: int) -> Author:
        """The likely author of a commit on a partition."""
        if group is None or group.is_empty():
            return Author(Actor.ADMIN)
        if isinstance(group, ConsumerGroup):
            # A record without a topic id cannot be told from one of another topic of its name.
            known = topic_id != NO_TOPIC_ID
            owner = self._owner((topic_id, partition)) if known else None
            if owner is None:
                return Author(Actor.UNKNOWN, epoch=group.group_epoch)
            member = group.members[owner]
            return Author(
                Actor.OWNER,
                owner,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.member_epoch,
            )
        assert isinstance(group, ClassicGroup)
        owner = self._owner((topic, partition))
        if owner is None:
            return Author(Actor.UNKNOWN, epoch=group.generation)
        classic = group.members[owner]
        return Author(
            Actor.OWNER,
            owner,
            classic.group_instance_id,
            classic.client_id,
            classic.client_host,
            group.generation,
        )


def _places(group: Group | None) -> dict[str, frozenset[Place]]:
    """By member id."""
    if isinstance(group, ConsumerGroup):
        return {member_id: _owned(member) for member_id, member in group.members.items()}
    if not isinstance(group, ClassicGroup) or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return {}
    return {member_id: _assigned(member) for member_id, member in group.members.items()}


def _owned(member: ConsumerGroupMember) -> frozenset[Place]:
    """Until it has confirmed a revocation, a member may still commit."""
    return frozenset(
        (topic_id, partition)
        for owned in (member.assigned, member.pending_revocation)
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _assigned(member: ClassicGroupMember) -> frozenset[Place]:
    try:
        assignment = parse_assignment(member.assignment)
    except MalformedSubscription:
        return _NOWHERE  # a client's own format
    return frozenset(
        (topic, partition)
        for topic, partitions in assignment.partitions
        for partition in partitions
    )
