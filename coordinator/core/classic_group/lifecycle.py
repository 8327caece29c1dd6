"""The classic groups of a shard when it is loaded and when it is given up (classic spec, section 5,
"Load" and "Unload")."""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.classic_group import rebalance
from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.turn import Turn, cancel_timers
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, SyncGroupReply


def on_loaded(state: ShardState, now: Instant) -> Outcome:
    """All records are replayed: every member gets a full session; a group that is larger than
    `group.max.size` rebalances, which lets only so many join again. So does one whose members
    have no leader: it came from a consumer group and had not finished its first rebalance."""
    outcome = Outcome(replay=False)
    for group in _classic_groups(state):
        turn = Turn(state, group, now)
        for member in group.members.values():
            turn.arm_member(member)
        if len(group.members) > state.config.group_max_size:
            rebalance.prepare(turn, "freshly loaded and larger than group.max.size")
        elif group.members and group.leader_id is None:
            rebalance.prepare(turn, "freshly loaded in the middle of a conversion")
        outcome.events.extend(turn.outcome.events)
    return outcome


def unload(state: ShardState) -> Outcome:
    """The shard goes elsewhere: parked requests are told NOT_COORDINATOR, timers stop and every
    group is Dead for callbacks that come late."""
    gone = ErrorCode.NOT_COORDINATOR
    outcome = Outcome(replay=False)
    for group in _classic_groups(state):
        for member in group.sorted_members():
            if (token := group.take_join(member)) is not None:
                reply = JoinGroupReply(gone, member_id=member.member_id)
                outcome.urgent.append((token, reply))
            if member.sync_token is not None:
                outcome.urgent.append((member.sync_token, SyncGroupReply(gone)))
                member.sync_token = None
        cancel_timers(state, group)
        # Nobody reads a dead group's time, and there is no `now` here.
        group.transition(State.DEAD, group.state_timestamp_ms)
    return outcome


def _classic_groups(state: ShardState) -> Iterator[ClassicGroup]:
    for _, group in sorted(state.groups.items()):
        if isinstance(group, ClassicGroup):
            yield group
