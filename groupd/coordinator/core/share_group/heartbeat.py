"""ShareGroupHeartbeat (docs/spec/share-group.md#2.2), the central request of share groups.

Four steps: create or update the member, which may bump the group epoch; compute a target if the
group epoch is ahead of it; give the member its target, without any negotiation; begin to initialize
partitions that the share coordinator does not know yet. Every decision uses the state before the
operation's own records. Soft state is written at the very end.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.counts import move_all
from groupd.coordinator.core.epochs import LEAVE_EPOCH, is_refresh_due, schedule_refresh
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.heartbeat_validity import HeartbeatReplyValidity
from groupd.coordinator.core.large_targets import come_back_ms, is_requested
from groupd.coordinator.core.metadata_image import topics_hash
from groupd.coordinator.core.share_group import events, initialization, records
from groupd.coordinator.core.share_group.configs import HEARTBEAT_INTERVAL
from groupd.coordinator.core.share_group.fence import remove_member
from groupd.coordinator.core.share_group.group import SESSION, ShareGroup
from groupd.coordinator.core.share_group.lookup import (
    check_epoch,
    check_size,
    existing_group,
    existing_member,
    joined_group,
)
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.share_group.state_partitions import NO_STATE_PARTITIONS
from groupd.coordinator.core.share_group.target import (
    TASK_KIND,
    install_if_due,
    subscribed_topic_ids,
)
from groupd.coordinator.core.share_group.timers import session_timeout_ms, start_session
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.topic_names import canonical_names
from groupd.coordinator.core.types import EventKind, Instant, Outcome, RequestContext
from groupd.protocol.messages.consumer_group import TopicPartitions
from groupd.protocol.messages.share_group import (
    ShareGroupHeartbeatReply,
    ShareGroupHeartbeatRequest,
)


def handle(
    state: ShardState, context: RequestContext, request: ShareGroupHeartbeatRequest, now: Instant
) -> Outcome:
    """Handles one heartbeat that has passed the checks of the front end.

    Raises ApiError. If the assignor fails, the outcome has no records, but an event that tells the
    operator what was wrong; clients see UNKNOWN_SERVER_ERROR.
    """
    if request.member_epoch == LEAVE_EPOCH:
        return _leave(state, context, request, now)
    try:
        return _regular(state, context, request, now)
    except AssignorFailed as failure:
        reply = ShareGroupHeartbeatReply(failure.code)
        event = events.assignor_failed(request.group_id, request.member_id, failure)
        return Outcome(replies=[(context.token, reply)], events=[event])


def _regular(
    state: ShardState, context: RequestContext, request: ShareGroupHeartbeatRequest, now: Instant
) -> Outcome:
    group_id, member_id = request.group_id, request.member_id
    joining = request.member_epoch == 0
    if joining:
        group, is_new_group = joined_group(state, group_id)
    else:
        group, is_new_group = existing_group(state, group_id), False
    check_size(group, member_id, state.config.share_max_size)
    is_new = joining and member_id not in group.members
    before = ShareGroupMember(member_id) if is_new else existing_member(group, member_id)
    check_epoch(before, request.member_epoch)
    outcome = Outcome(gate=group_id)
    if is_new_group:
        outcome.events.append(events.event(EventKind.GROUP_CREATED, group_id))

    # The member's subscription and the group epoch.
    updated = _updated(before, context, request)
    if is_new:
        outcome.events.append(events.member_joined(group_id, updated))
    if updated != before or is_new:
        outcome.records.append(records.member_metadata(group_id, updated))
    names = _names_after(group, before, updated)
    causes = _causes(state, group, before, updated, is_new=is_new)
    epoch, refreshed = group.group_epoch, bool(causes) or is_refresh_due(group, now)
    if refreshed:
        metadata_hash = topics_hash(state.image, names)
        if not causes and metadata_hash != group.metadata_hash:
            causes.append("topic metadata changed")
        if causes:
            epoch += 1
            outcome.records.append(records.group_epoch(group_id, epoch, metadata_hash))
            bumped = events.event(
                EventKind.GROUP_EPOCH_BUMPED, group_id, member_id, epoch, "; ".join(causes)
            )
            outcome.events.append(bumped)

    # The target, and the member's part of it.
    target_epoch, target = install_if_due(state, group, updated, epoch, now, outcome)
    after = updated
    if updated.member_epoch != target_epoch or causes:
        after = _reconciled(state, updated, target_epoch, target)
    if after != updated:
        outcome.records.append(records.current_member(group_id, after))
        outcome.events += events.reconciled(group_id, before, after, state.image)

    # Soft state is written from here on, when nothing can fail any more.
    initialization.start(state, group, names, epoch, now, outcome)
    if refreshed:
        schedule_refresh(group, epoch, now)
    start_session(state, group_id, member_id, now)
    interval_ms = HEARTBEAT_INTERVAL.number(state.config, state.group_configs.get(group_id))
    if epoch > target_epoch and is_requested(TASK_KIND, group, outcome):
        interval_ms = come_back_ms(group, after.assigned, interval_ms)
    outcome.replies.append((context.token, _reply(request, before, after, interval_ms)))
    outcome.reply_validity = _validity(state, group, member_id, outcome)
    return outcome


def _validity(
    state: ShardState, group: ShareGroup, member_id: str, outcome: Outcome
) -> HeartbeatReplyValidity | None:
    """How long the reply is valid; None unless the heartbeat has found nothing to do, and there is
    nothing that the next one does because time has passed: no target that is not due yet, and no
    partition whose initialization may have to be tried again."""
    known = group.state_partitions or NO_STATE_PARTITIONS
    session = state.deadlines.get((SESSION, group.group_id, member_id))
    if (
        session is None
        or outcome.records
        or group.group_epoch > group.assignment_epoch
        or known.initializing
    ):
        return None
    timeout_ms = session_timeout_ms(state, group.group_id)
    return HeartbeatReplyValidity(state, group, session, timeout_ms)


def _updated(
    member: ShareGroupMember, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupMember:
    """The member with the fields of the request that are not null."""
    rack_id, names = request.rack_id, request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if rack_id is None else rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else canonical_names(names)
        ),
    )


def _names_after(
    group: ShareGroup, before: ShareGroupMember, updated: ShareGroupMember
) -> Mapping[str, int]:
    """The topics that members subscribe to, once `before` is `updated`."""
    if before.subscribed_topic_names == updated.subscribed_topic_names:
        return group.name_subscribers
    names = dict(group.name_subscribers)
    move_all(names, before.subscribed_topic_names, updated.subscribed_topic_names)
    return names


def _causes(
    state: ShardState,
    group: ShareGroup,
    before: ShareGroupMember,
    updated: ShareGroupMember,
    *,
    is_new: bool,
) -> list[str]:
    """Why the group epoch must grow; empty if it must not."""
    causes = []
    if before.subscribed_topic_names != updated.subscribed_topic_names:
        done = "joined" if is_new else "changed its topic names"
        causes.append(f"member {updated.member_id} {done}")
    if group.assignment_epoch >= group.group_epoch and group.has_unassigned_partitions(state.image):
        causes.append("partitions have been initialized")
    return causes


def _reconciled(
    state: ShardState, member: ShareGroupMember, target_epoch: int, target: Assignment
) -> ShareGroupMember:
    """The member at the epoch of its target, with those partitions of it that it subscribes to."""
    subscribed = subscribed_topic_ids(member, state.image)
    assigned = {topic_id: its for topic_id, its in target.items() if topic_id in subscribed}
    if member.member_epoch == target_epoch:
        return replace(member, assigned=assigned)
    return replace(
        member,
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
    )


def _reply(
    request: ShareGroupHeartbeatRequest,
    before: ShareGroupMember,
    after: ShareGroupMember,
    interval_ms: int,
) -> ShareGroupHeartbeatReply:
    """The assignment is there if the member joins, if its client has sent all fields (it may have
    missed a reply), or if it has changed."""
    is_full = request.member_epoch == 0 or request.subscribed_topic_names is not None
    assignment = None
    if is_full or after.assigned != before.assigned:
        assignment = tuple(
            TopicPartitions(topic_id, numbers)
            for topic_id, numbers in sorted(after.assigned.items())
        )
    return ShareGroupHeartbeatReply(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def _leave(
    state: ShardState, context: RequestContext, request: ShareGroupHeartbeatRequest, now: Instant
) -> Outcome:
    """Handles a leave; all fields but the identity are ignored. Raises ApiError."""
    group = existing_group(state, request.group_id)
    member = existing_member(group, request.member_id)
    outcome = remove_member(
        state, group, member, EventKind.MEMBER_LEFT, "the member asked to leave"
    )
    reply = ShareGroupHeartbeatReply(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
    outcome.replies.append((context.token, reply))
    return outcome
