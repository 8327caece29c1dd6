"""JoinGroup on a consumer group with members (docs/spec/consumer-group.md#8).

The member takes part in the consumer group like any other. Its subscription is that of its first
protocol, the coordinator computes the assignment, and the answer comes at once, with the member
epoch as the generation and without a leader. The subscription says what the member owns, so one
Join also acknowledges what the member has revoked.
"""

from __future__ import annotations

from msgspec.structs import replace

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE
from groupd.coordinator.core.consumer_group import events
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.lookup import (
    Resolved,
    check_instance,
    check_size,
    replacement,
)
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.reconcile import reconcile_member
from groupd.coordinator.core.consumer_group.target_plan import assign, plan_target
from groupd.coordinator.core.consumer_group.timers import cancel_rebalance
from groupd.coordinator.core.consumer_group.update import MemberUpdate, update_group
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.interop import classic_members, downgrade
from groupd.coordinator.core.interop.classic_members import supports
from groupd.coordinator.core.interop.embedded_protocol import (
    classic_metadata,
    owned_partitions,
    subscription_of,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.topic_names import canonical_names
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.protocol.consumer_protocol import (
    EmbeddedSubscription,
    MalformedSubscription,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, JoinGroupRequest
from groupd.protocol.messages.consumer_group import TopicPartitions

_MEMBER_ID_REQUIRED_FROM = 4


def handle(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: JoinGroupRequest,
    now: Instant,
) -> Outcome:
    """Handles one JoinGroup that has passed the front-end checks. Raises ApiError, whose reply has
    no member id. If an assignor fails, the outcome has an error reply and the event that tells the
    operator what was wrong."""
    try:
        return _join(state, group, context, request, now)
    except AssignorFailed as failure:
        event = events.assignor_failed(group.group_id, request.member_id, failure)
        reply = answers.join_failure(request, failure)
        return Outcome(replies=[(context.token, reply)], events=[event])


def _join(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: JoinGroupRequest,
    now: Instant,
) -> Outcome:
    member_id = request.member_id or state.new_id()
    _check(state, group, request, member_id)
    is_dynamic = request.group_instance_id is None
    if not request.member_id and is_dynamic and context.api_version >= _MEMBER_ID_REQUIRED_FROM:
        reply = JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        return Outcome(replies=[(context.token, reply)])
    resolved = _resolve(group, member_id, request)
    try:
        subscription = subscription_of(request.protocols)
    except MalformedSubscription as error:
        raise _inconsistent(f"The subscription cannot be read: {error}.") from error
    updated = _updated(resolved.member, context, request, subscription)
    owned = owned_partitions(subscription, state.image)
    outcome = Outcome(gate=group.group_id)
    step = update_group(state, context, group, resolved, updated, now, outcome)
    after = _downgraded(state, group, step, request, owned, now, outcome)
    if after is None:
        plan = plan_target(state, group, step, now, at_once=True)
        after = assign(state, group, step, plan, owned, now, outcome)
        _note(state, group, step, after, request, now, outcome)
    reply = JoinGroupReply(
        generation_id=after.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        member_id=after.member_id,
    )
    outcome.replies.append((context.token, reply))
    return outcome


def _check(
    state: ShardState, group: ConsumerGroup, request: JoinGroupRequest, member_id: str
) -> None:
    if state.config.consumer_migration_policy == "disabled":
        raise _inconsistent("Classic members may not join: migration is disabled.")
    check_size(group, member_id, request.group_instance_id, state.config.consumer_max_size)
    if not supports(group, request.protocol_type, (one.name for one in request.protocols)):
        raise _inconsistent("No offered protocol is common to all classic members.")


def _resolve(group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> Resolved:
    """The member that a Join means. A dynamic member may have any id. A static member without an id
    takes the place of its instance, whichever member has it."""
    instance_id = request.group_instance_id
    if instance_id is None:
        known = group.members.get(member_id)
    elif request.member_id:
        known = check_instance(group, member_id, instance_id)
    else:
        owner = group.static_member(instance_id)
        if owner is not None:
            return replacement(group, owner, member_id)
        known = None
    if known is None:
        return Resolved(ConsumerGroupMember(member_id), is_new=True)
    return Resolved(known)


def _updated(
    member: ConsumerGroupMember,
    context: RequestContext,
    request: JoinGroupRequest,
    subscription: EmbeddedSubscription,
) -> ConsumerGroupMember:
    """The member with the values of the request, on the classic protocol; its server-side assignor
    stays. The same object if nothing differs."""
    updated = replace(
        member,
        instance_id=(
            member.instance_id if request.group_instance_id is None else request.group_instance_id
        ),
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        ),
        client_id=context.client_id,
        client_host=context.client_host,
        subscribed_topic_names=canonical_names(subscription.topics),
        subscribed_topic_regex="",
        classic=classic_metadata(request.session_timeout_ms, request.protocols),
    )
    return member if updated == member else updated


def _downgraded(
    state: ShardState,
    group: ConsumerGroup,
    step: MemberUpdate,
    request: JoinGroupRequest,
    owned: tuple[TopicPartitions, ...],
    now: Instant,
    outcome: Outcome,
) -> ConsumerGroupMember | None:
    """The member after the downgrade of docs/spec/consumer-group.md#8 "Downgrade" (b); None if the
    Join does not lead to one.

    The classic group stays Stable only if its assignment, the stored target, is what all members
    have: the target is that of the group epoch, and all other members have reached it. Otherwise a
    partition of the target would be given to the joining member while its old owner still has it,
    or would never be given to any member.
    """
    instance_id = request.group_instance_id
    owner = None if instance_id is None else group.static_member(instance_id)
    if owner is None or not downgrade.permitted_replacing(state.config, group, owner):
        return None
    classic = downgrade.replacing(state, group, owner, step.updated, now)
    if classic is None:
        return None
    settled = group.assignment_epoch >= step.epoch.epoch and all(
        one.is_reconciled_to(group.assignment_epoch)
        for one in group.members.values()
        if one is not owner
    )
    after = step.updated
    if settled:
        changed = step.subscription_changed
        after = reconcile_member(state, group, after, changed, owned, outcome)
    tombstones = group.tombstones_of(sorted(classic.members))
    downgrade.install(state, group, classic, tombstones, outcome, now, rebalances=not settled)
    return after


def _note(
    state: ShardState,
    group: ConsumerGroup,
    step: MemberUpdate,
    after: ConsumerGroupMember,
    request: JoinGroupRequest,
    now: Instant,
    outcome: Outcome,
) -> None:
    """Write soft state. The time for revoking partitions is limited by the member's join timer."""
    step.note(state, group, now, outcome)
    if group.is_classic_only({after.member_id}):
        group.rejoin_epoch = step.epoch.epoch
    group_id, member_id = group.group_id, after.member_id
    cancel_rebalance(state, group, member_id)
    classic_members.arm_session(state, group_id, member_id, request.session_timeout_ms, now)
    classic_members.joined(state, group_id, member_id, request.rebalance_timeout_ms, now)


def _inconsistent(message: str) -> ApiError:
    return ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
