"""Heartbeat (12), docs/spec/classic-group.md#2.3, after the front end's checks; and how long the
reply to a repeated heartbeat may be sent again without handling the request.

A heartbeat changes nothing but the session's deadline. In CompletingRebalance it succeeds, because
the member should send its Sync and not join again.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.classic_group.group import SESSION, ClassicGroup, State
from groupd.coordinator.core.classic_group.lookup import require_classic
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.deadlines import OFF, Deadline
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatRequest


def handle(
    state: ShardState, context: RequestContext, request: HeartbeatRequest, now: Instant
) -> Outcome:
    """Answers a Heartbeat. Never raises ApiError: the outcome has every reply, errors included."""
    try:
        code = _beat(state, request, now)
    except ApiError as error:
        reply = answers.heartbeat_failure(request, error)
        return Outcome(replies=[(context.token, reply)])
    outcome = Outcome(replies=[(context.token, answers.heartbeat(code))])
    outcome.reply_validity = ClassicReplyValidity.of(state, request)
    return outcome


def _beat(state: ShardState, request: HeartbeatRequest, now: Instant) -> ErrorCode:
    group = require_classic(state, request.group_id)
    if group.state is State.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    key = (SESSION, group.group_id, member.member_id)
    state.deadlines.set(key, now.monotonic_ms + member.session_timeout_ms)
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


class ClassicReplyValidity:
    """Says whether the reply to a repeated heartbeat may be sent again, for one member of one
    generation. Classic groups change in place, so `renew` repeats the checks of the handler, but
    only in the state Stable, in which nearly all heartbeats arrive."""

    __slots__ = (
        "_deadline",
        "_generation",
        "_group",
        "_instance_id",
        "_member",
        "_member_id",
        "_state",
        "group_id",
    )

    def __init__(
        self,
        state: ShardState,
        group: ClassicGroup,
        member: ClassicGroupMember,
        instance_id: str | None,
        deadline: Deadline,
    ) -> None:
        self.group_id = group.group_id
        self._state = state
        self._group = group
        self._member = member
        self._member_id = member.member_id
        self._instance_id = instance_id
        self._generation = group.generation
        self._deadline = deadline

    @classmethod
    def of(cls, state: ShardState, request: HeartbeatRequest) -> ClassicReplyValidity | None:
        """How long the reply is valid to a heartbeat that has just been answered without an error;
        None if the group is not Stable."""
        group = state.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup) or group.state is not State.STABLE:
            return None
        member = group.members.get(request.member_id)
        deadline = state.deadlines.get((SESSION, request.group_id, request.member_id))
        if member is None or deadline is None:
            return None
        return cls(state, group, member, request.group_instance_id, deadline)

    def renew(self, now_ms: int) -> bool:
        """The same request came again at `now_ms`: restart the member's session. Returns False if
        the reply is no longer valid and the request must be handled in full."""
        group, deadline, member, instance_id = (
            self._group,
            self._deadline,
            self._member,
            self._instance_id,
        )
        at_ms = now_ms + member.session_timeout_ms
        if (
            group.state is not State.STABLE
            or group.generation != self._generation
            or group.members.get(self._member_id) is not member
            or self._state.groups.get(self.group_id) is not group
            or (
                instance_id is not None and group.static_members.get(instance_id) != self._member_id
            )
            or deadline.at_ms == OFF
            or at_ms < deadline.queued_ms
        ):
            return False
        deadline.at_ms = at_ms
        return True
