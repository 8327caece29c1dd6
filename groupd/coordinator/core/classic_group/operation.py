"""One input that is being handled for one classic group: its outcome, which is being built, and the
group's deadlines.

Rules. Answers to parked requests are urgent: they do not depend on a record that is still to be
written. Timers of a group: "classic-session" for each member or pending id, "classic-join" and
"classic-sync" for the group (member ""). Setting a timer again replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.classic_group.group import SESSION, TYPE_NAME, ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.group import Group, identity
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome, RequestToken
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, SyncGroupReply
from groupd.protocol.records.schema import GroupMetadataValue, Record

JOIN = "classic-join"
SYNC = "classic-sync"

NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long the first Join of a member may stay parked; Kafka has no setting for it."""


class ChangedGroups:
    """Classic groups that a handler has changed in place and whose record is not replayed yet:
    oldest first, hardly ever more than one.

    Handlers of the classic protocol change their group themselves (ADR 7) and return a record,
    which is replayed next. The replay of such a record does not build the group anew: it puts the
    changed object into the state. Soft state of the type.
    """

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: list[tuple[object, ClassicGroup]] = []

    def note(self, record: Record, group: ClassicGroup) -> None:
        """Note that `group` is already in the state that `record` describes."""
        self._noted.append((record.value, group))

    def take(self, value: GroupMetadataValue) -> ClassicGroup | None:
        """The group that a handler has noted with the record of this value. Groups noted before it
        are forgotten, because their records were refused."""
        for index, (noted, group) in enumerate(self._noted):
            if noted is value:
                del self._noted[: index + 1]
                return group
        return None


def changed_groups(state: ShardState) -> ChangedGroups:
    """The changed groups of a shard. Tools that only replay a log have no soft state, so it is made
    here for them."""
    found: ChangedGroups = state.soft.setdefault(TYPE_NAME, ChangedGroups())
    return found


class GroupOperation:
    """The functions that get this object add to its `outcome`."""

    __slots__ = ("group", "now", "outcome", "state")

    def __init__(self, state: ShardState, group: ClassicGroup, now: Instant) -> None:
        self.state = state
        self.group = group
        self.now = now
        self.outcome = Outcome()

    def write(self, record: Record) -> None:
        """Add a record that describes the group as it is now, or will be once the record is
        durable."""
        self.outcome.records.append(record)
        changed_groups(self.state).note(record, self.group)

    def arm_session(self, member_id: str, timeout_ms: int) -> None:
        key = (SESSION, self.group.group_id, member_id)
        self.state.deadlines.set(key, self.now.monotonic_ms + timeout_ms)

    def arm_member(self, member: ClassicGroupMember) -> None:
        """Restart the member's session, with its full timeout."""
        self.arm_session(member.member_id, member.session_timeout_ms)

    def cancel_session(self, member_id: str) -> None:
        self.state.deadlines.cancel((SESSION, self.group.group_id, member_id))

    def arm_join(self, delay_ms: int) -> None:
        self._arm(JOIN, delay_ms)

    def cancel_join(self) -> None:
        self.state.deadlines.cancel((JOIN, self.group.group_id, ""))

    def arm_sync(self, delay_ms: int) -> None:
        self._arm(SYNC, delay_ms)

    def cancel_sync(self) -> None:
        self.state.deadlines.cancel((SYNC, self.group.group_id, ""))

    def synced(self, member_id: str) -> None:
        """Note that the member has sent its Sync of this generation."""
        self.group.pending_sync.discard(member_id)
        if not self.group.pending_sync:
            self.cancel_sync()

    def answer_join(self, member: ClassicGroupMember, reply: JoinGroupReply) -> None:
        """Answer the member's parked Join, if there is one."""
        token = self.group.take_join(member)
        if token is not None:
            self.outcome.urgent.append((token, reply))

    def answer_sync(self, member: ClassicGroupMember, reply: SyncGroupReply) -> bool:
        """Answer the member's parked Sync; returns whether there was one. The member's session
        starts afresh, because its client could not send a heartbeat on this connection while the
        Sync was parked."""
        token, member.sync_token = member.sync_token, None
        if token is None:
            return False
        self.outcome.urgent.append((token, reply))
        self.arm_member(member)
        return True

    def drop(self, member: ClassicGroupMember, kind: EventKind, cause: str) -> None:
        """Remove a member; its parked requests are answered UNKNOWN_MEMBER_ID."""
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        self.answer_join(member, JoinGroupReply(unknown))
        self.answer_sync(member, SyncGroupReply(unknown))
        self.cancel_session(member.member_id)
        self.group.remove(member.member_id)
        self.member_event(kind, member, cause)

    def forget_pending(self, member_id: str) -> None:
        self.group.pending_members.pop(member_id, None)
        self.cancel_session(member_id)

    def member_event(self, kind: EventKind, member: ClassicGroupMember, cause: str) -> None:
        """Add an event of a member that comes or goes, with the member's identity."""
        who = identity(member.client_id, member.client_host, member.group_instance_id)
        self.event(kind, member.member_id, cause, **who)

    def event(self, kind: EventKind, member_id: str = "", cause: str = "", **details: Any) -> None:
        group = self.group
        self.outcome.events.append(
            Event(TYPE_NAME, kind, group.group_id, member_id, group.generation, cause, details)
        )

    def _arm(self, kind: str, delay_ms: int) -> None:
        due = self.now.monotonic_ms + max(delay_ms, 0)
        self.state.deadlines.set((kind, self.group.group_id, ""), due)


def cancel_timers(state: ShardState, group: ClassicGroup) -> None:
    """Cancel all timers of a group that is removed."""
    for member_id in (*group.members, *group.pending_members):
        state.deadlines.cancel((SESSION, group.group_id, member_id))
    for kind in (JOIN, SYNC):
        state.deadlines.cancel((kind, group.group_id, ""))


OWNER = "classic-group"


class GroupCreated(Struct, frozen=True):
    """`previous`: the empty consumer group that the new one replaced."""

    group: ClassicGroup
    previous: Group | None


class LeaderSynced(Struct, frozen=True):
    """`assignments` by member id; a member without an entry gets b""."""

    group: ClassicGroup
    generation: int
    assignments: Mapping[str, bytes]


class StaticReplaced(Struct, frozen=True):
    """What is needed to answer the Join that replaced a static member in Stable. `token`: that
    Join. The member as it was before is in `ClassicGroupMember.unwritten`."""

    group: ClassicGroup
    member: ClassicGroupMember
    token: RequestToken
    api_version: int
