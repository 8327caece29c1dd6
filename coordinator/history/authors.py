"""Who probably made a commit: derived from the group as the log had it at that point.

A commit record names no member. Of a group without members it can only be a tool, an operator or
a simple consumer; else whoever the partition was assigned to is the likely one.
"""

from __future__ import annotations

from coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from coordinator.core.classic_group.subscription import MalformedSubscription, parse_assignment
from coordinator.core.consumer_group.group import ConsumerGroup
from coordinator.core.group import Group
from coordinator.history.changes import Actor, Author
from protocol.messages import NO_TOPIC_ID, TopicId

Place = tuple[str | TopicId, int]
"""A partition by topic name (classic groups) or by topic id (consumer groups)."""


class Authors:
    """Looks owners up in an index, which is made anew after the group has changed."""

    def __init__(self) -> None:
        self._owners: dict[Place, str] | None = None

    def group_changed(self) -> None:
        self._owners = None

    def of(self, group: Group | None, topic: str, topic_id: TopicId, partition: int) -> Author:
        """The likely author of a commit on a partition."""
        if group is None or group.is_empty():
            return Author(Actor.ADMIN)
        if self._owners is None:
            self._owners = _owners(group)
        if isinstance(group, ConsumerGroup):
            # A record without a topic id cannot be told from one of another topic of its name.
            known = topic_id != NO_TOPIC_ID
            owner = self._owners.get((topic_id, partition)) if known else None
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
        owner = self._owners.get((topic, partition))
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


def _owners(group: Group) -> dict[Place, str]:
    if isinstance(group, ConsumerGroup):
        return {
            (topic_id, partition): member_id
            for member_id, member in sorted(group.members.items())
            # Until it has confirmed a revocation, a member may still commit.
            for owned in (member.assigned, member.pending_revocation)
            for topic_id, partitions in owned.items()
            for partition in partitions
        }
    assert isinstance(group, ClassicGroup)
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return {}
    owners: dict[Place, str] = {}
    for member in group.sorted_members():
        try:
            assignment = parse_assignment(member.assignment)
        except MalformedSubscription:
            continue  # a client's own format
        for topic, partitions in assignment.partitions:
            owners.update(dict.fromkeys([(topic, p) for p in partitions], member.member_id))
    return owners
