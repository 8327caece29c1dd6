"""Assignments that a member was told and has not yet said it has.

A reply can get lost while its connection lives on: librdkafka gives a slow heartbeat up after a
second and then asks again without telling what it owns. In Kafka such a member never hears of the
assignment again. What it should give up stays with it until its rebalance timeout, and what it was
given stays without a consumer for good. So an assignment is told again with every third heartbeat
until the client reports it. To one that knows it already that says nothing new.
"""

from __future__ import annotations

from coordinator.core.consumer_group.group import ConsumerGroup
from coordinator.core.consumer_group.member import ConsumerGroupMember
from protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, TopicPartitions

TELL_AGAIN_AFTER = 3
"""Heartbeats without an acknowledgement."""


def must_tell_again(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member: ConsumerGroupMember,
    told: bool,
) -> bool:
    """Note what this heartbeat acknowledges, or that its reply tells an assignment (`told`).
    True = it waits for an acknowledgement for so long that it is told again. Writes soft state."""
    waiting, member_id = group.unacknowledged, member.member_id
    if not told and member_id not in waiting:
        return False
    if _reports(request.topic_partitions, member):
        waiting.pop(member_id, None)
        return False
    heartbeats = 0 if told else waiting[member_id] + 1
    again = heartbeats == TELL_AGAIN_AFTER
    waiting[member_id] = 0 if again else heartbeats
    return again


def _reports(owned: tuple[TopicPartitions, ...] | None, member: ConsumerGroupMember) -> bool:
    if owned is None:
        return False
    said = {(topic.topic_id, number) for topic in owned for number in topic.partitions}
    return said == {(topic, number) for topic, held in member.assigned.items() for number in held}
