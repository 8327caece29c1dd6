"""Assignments that a member was told and has not yet said it has.

A reply can get lost while its connection lives on: librdkafka gives a slow heartbeat up after a
second and then asks again without telling what it owns. In Kafka such a member never hears of the
assignment again. What it should give up stays with it until its rebalance timeout, and what it was
given stays without a consumer for good. So an assignment is told again until the client reports it.
To one that knows it already that says nothing new.

It is told again after a time, not after a number of heartbeats: a client may send them as often as
it likes, and while it carries out an assignment it needs no reminder. The time is two heartbeat
intervals of the group: a client that has received the assignment has reported it by then, or is
still busy in its callbacks.
"""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, TopicPartitions

TELL_AGAIN_AFTER_INTERVALS = 2
"""Heartbeat intervals since the assignment was told last, without an acknowledgement."""


def must_tell_again(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member: ConsumerGroupMember,
    told: bool,
    interval_ms: int,
    now_ms: int,
) -> bool:
    """Note what this heartbeat acknowledges, or that its reply tells an assignment (`told`).
    True = its acknowledgement is overdue, so that the reply tells the assignment again. Writes
    soft state. `interval_ms`: the heartbeat interval of the group; `now_ms`: monotonic."""
    waiting, member_id = group.unacknowledged, member.member_id
    if not told and member_id not in waiting:
        return False
    if _reports(request.topic_partitions, member):
        waiting.pop(member_id, None)
        return False
    if member_id not in waiting:
        # Replies that are stored for this member's heartbeats do not tell it again.
        group.changes += 1
    elif not told and now_ms - waiting[member_id] < TELL_AGAIN_AFTER_INTERVALS * interval_ms:
        return False
    waiting[member_id] = now_ms
    return not told


def _reports(owned: tuple[TopicPartitions, ...] | None, member: ConsumerGroupMember) -> bool:
    if owned is None:
        return False
    said = {(topic.topic_id, number) for topic in owned for number in topic.partitions}
    return said == {(topic, number) for topic, held in member.assigned.items() for number in held}
