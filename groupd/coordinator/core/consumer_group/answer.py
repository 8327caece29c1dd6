"""The end of a ConsumerGroupHeartbeat (docs/spec/consumer-group.md#4, steps 8 and 9): the timers,
which are soft state, and the reply. Also the assignments that were sent to a member and that its
client has not reported yet."""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.configs import (
    heartbeat_interval_ms,
    session_timeout_ms,
)
from groupd.coordinator.core.consumer_group.deferred_target import TASK_KIND
from groupd.coordinator.core.consumer_group.group import (
    SESSION,
    TARGET,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import (
    ConsumerGroupMember,
    MemberState,
    topic_partitions,
)
from groupd.coordinator.core.consumer_group.timers import (
    cancel_rebalance,
    schedule_rebalance,
)
from groupd.coordinator.core.large_targets import come_back_ms, is_requested
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

# A reply can be lost while its connection stays open: librdkafka gives up on a slow heartbeat after
# a second and sends another one without its partitions. In Kafka such a member never gets that
# assignment again. Partitions that it should give up stay with it until its rebalance timeout, and
# partitions that it should get are not consumed. So groupd sends an assignment again until the
# client reports it. A client that has received it already learns nothing new.
#
# It is sent again after a time, not after a number of heartbeats, because a client may send
# heartbeats as often as it likes. The time is two heartbeat intervals of the group. By then a
# client that has received the assignment has reported it, or is still busy in its callbacks.

SEND_AGAIN_AFTER_INTERVALS = 2
"""How many heartbeat intervals after a reply with the assignment it is sent again."""


def must_send_again(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member: ConsumerGroupMember,
    is_sent: bool,
    interval_ms: int,
    now_ms: int,
) -> bool:
    """Whether the reply must send the assignment again, because its acknowledgement is overdue.
    Also notes, as soft state, that the heartbeat acknowledges the assignment or that the assignment
    is sent.

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
        # The stored reply to this member's heartbeats must not be used any more, because it has no
        # assignment.
        group.changes += 1
    elif not is_sent and now_ms - waiting[member_id] < SEND_AGAIN_AFTER_INTERVALS * interval_ms:
        return False
    waiting[member_id] = now_ms
    return not is_sent


def _reports(owned: tuple[TopicPartitions, ...] | None, member: ConsumerGroupMember) -> bool:
    """Whether the client reports exactly the partitions that are assigned to the member."""
    if owned is None:
        return False
    assigned = sum([len(held) for held in member.assigned.values()])
    if sum([len(topic.partitions) for topic in owned]) != assigned:
        return False
    reported = {(topic.topic_id, number) for topic in owned for number in topic.partitions}
    return reported == {
        (topic, number) for topic, held in member.assigned.items() for number in held
    }


def answer(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerGroupMember,
    after: ConsumerGroupMember,
    now: Instant,
    outcome: Outcome,
) -> ConsumerGroupHeartbeatReply:
    """The reply to the heartbeat; also sets the session timer. `before`: the member after step 2;
    `after`: the member at the end of the operation."""
    overrides = state.group_configs.get(group.group_id)
    state.deadlines.set(
        (SESSION, group.group_id, after.member_id),
        now.monotonic_ms + session_timeout_ms(state.config, overrides),
    )
    is_sent = _must_send_assignment(request, before, after)
    interval_ms = heartbeat_interval_ms(state.config, overrides)
    is_sent |= must_send_again(group, request, after, is_sent, interval_ms, now.monotonic_ms)
    if (group.group_epoch > group.assignment_epoch or outcome.tasks) and (
        is_requested(TASK_KIND, group, outcome) or (TARGET, group.group_id, "") in state.deadlines
    ):
        interval_ms = come_back_ms(group, after.assigned, interval_ms)
    reply = ConsumerGroupHeartbeatReply(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=topic_partitions(after.assigned) if is_sent else None,
    )
    outcome.replies.append((context.token, reply))
    return reply


def set_rebalance_timer(
    state: ShardState, group: ConsumerGroup, member: ConsumerGroupMember, now: Instant
) -> None:
    """Set or cancel the rebalance timer of a member for which an R8 was just written. Soft
    state."""
    if member.state == MemberState.UNREVOKED_PARTITIONS:
        schedule_rebalance(state, group, member, now)
    else:
        cancel_rebalance(state, group, member.member_id)


def _must_send_assignment(
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerGroupMember,
    after: ConsumerGroupMember,
) -> bool:
    """Whether the reply has an assignment: if the member joins, if its client sent all fields (it
    may have missed a reply), or if the assignment has changed."""
    if request.member_epoch == 0:
        return True
    is_full_request = (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )
    return is_full_request or (
        after.assigned is not before.assigned and after.assigned != before.assigned
    )
