"""Assignments that were sent to a member and that it has not reported yet.

A reply can be lost while its connection stays open: librdkafka gives a slow heartbeat up after a
second and sends another one without its partitions. In Kafka such a member never hears of that
assignment again. Partitions that it should give up stay with it until its rebalance timeout, and
partitions that it should get are not consumed. So groupd sends an assignment again until the
client reports it. A client that has it already learns nothing new.

It is sent again after a time, not after a number of heartbeats: a client may send them as often as
it likes. The time is two heartbeat intervals of the group. By then a client that has received the
assignment has reported it, or is still busy in its callbacks.
"""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, TopicPartitions

SEND_AGAIN_AFTER_INTERVALS = 2
"""Heartbeat intervals from the last reply with the assignment to the next one."""


def must_send_again(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member: ConsumerGroupMember,
    is_sent: bool,
    interval_ms: int,
    now_ms: int,
) -> bool:
    """Whether the reply must send the assignment again, because its acknowledgement is overdue.
    Notes what the heartbeat acknowledges and that an assignment is sent; that is soft state.

    `is_sent`: the reply has the assignment anyway; `interval_ms`: the heartbeat interval of the
    group; `now_ms`: monotonic time.
    """
    waiting, member_id = group.unacknowledged, member.member_id
    if not is_sent and member_id not in waiting:
        return False
    if _reports(request.topic_partitions, member):
        waiting.pop(member_id, None)
        return False
    if member_id not in waiting:
        # A stored reply to this member's heartbeats must not be used: it has no assignment.
        group.changes += 1
    elif not is_sent and now_ms - waiting[member_id] < SEND_AGAIN_AFTER_INTERVALS * interval_ms:
        return False
    waiting[member_id] = now_ms
    return not is_sent


def _reports(owned: tuple[TopicPartitions, ...] | None, member: ConsumerGroupMember) -> bool:
    """Whether the client reports exactly what is assigned to the member."""
    if owned is None:
        return False
    assigned = sum([len(held) for held in member.assigned.values()])
    if sum([len(topic.partitions) for topic in owned]) != assigned:
        return False
    reported = {(topic.topic_id, number) for topic in owned for number in topic.partitions}
    return reported == {
        (topic, number) for topic, held in member.assigned.items() for number in held
    }
