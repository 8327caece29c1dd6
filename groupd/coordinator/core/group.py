"""What every type of group offers to offsets, administration and routing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.protocol.messages.offsets import CommitTopic
from groupd.protocol.records.schema import Record

ExpirationBase = Callable[[int], "int | None"]
"""Commit time (ms) -> the time (ms) from which retention counts; None = the offset never
expires."""


def commit_time(commit_timestamp_ms: int) -> int | None:
    """The `ExpirationBase` of offsets that expire by the time of their commit."""
    return commit_timestamp_ms


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def type_name(self) -> str:
        """The name of its `GroupType`, as ListGroups v5 spells it."""
        ...

    @property
    def epoch(self) -> int:
        """The group epoch; the generation of a classic group."""
        ...

    @property
    def offset_owner(self) -> OffsetOwner | None:
        """The group as owner of committed offsets; None if its type has none, such as share groups
        (KIP-932)."""
        ...

    @property
    def members(self) -> Mapping[str, Any]:
        """The members by id; each has at least the fields `member_id`, `client_id` and
        `client_host`."""
        ...

    @property
    def protocol_type(self) -> str:
        """ "" for a simple group (offsets only)."""
        ...

    def state_name(self) -> str:
        """The state as Kafka spells it: Empty, Stable, PreparingRebalance, Assigning, ..."""
        ...

    def is_empty(self) -> bool: ...

    def awaits_members(self) -> bool:
        """Whether a client was given a member id (KIP-394) and has not joined with it yet."""
        ...

    def admits_classic_members(self) -> bool:
        """Whether a JoinGroup of the classic protocol may make this group a classic one, if it is
        not one already."""
        ...

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP unless the group may be deleted now, GROUP_ID_NOT_FOUND for a dead
        classic group."""
        ...

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        """Cancel the timers of this group, because a group of another type takes its id."""
        ...

    def tombstones(self) -> list[Record]:
        """The group's own tombstones in the order of docs/spec/offsets-and-log.md#5.2, without
        those of its offsets."""
        ...


class OffsetOwner(Group, Protocol):
    """A group for which offsets are committed. The checks raise `ApiError` with the error code that
    docs/spec/offsets-and-log.md#3 says."""

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        topics: Sequence[CommitTopic],
        *,
        api_version: int,
        transactional: bool,
        too_long: Set[tuple[str, int]],
    ) -> None:
        """Checks an offset commit: docs/spec/offsets-and-log.md#3.1 from "Then, first match" on.
        `too_long`: (topic, partition) of the entries that are refused already because their
        metadata is too long; rule 7 leaves them out."""
        ...

    def on_offset_commit(
        self, member_id: str, instance_id: str | None, now: Instant, deadlines: Deadlines
    ) -> None:
        """A plain (not transactional) commit for this group has passed all checks. Changes only
        soft state: a classic group in Stable or PreparingRebalance restarts the member's session
        timer (docs/spec/offsets-and-log.md#3.1, classic rule 6); other types do nothing."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Checks an offset fetch (docs/spec/offsets-and-log.md#3.2)."""
        ...

    def check_offset_delete(self) -> None:
        """The group's part of the check of an offset delete (docs/spec/offsets-and-log.md#3.3).
        Raises NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND for a dead classic group."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group is subscribed to the topic (docs/spec/offsets-and-log.md#3.3
        "Subscribed")."""
        ...

    def offset_expiration_base(self) -> ExpirationBase:
        """From when the retention time of this group's offsets counts
        (docs/spec/offsets-and-log.md#4, the table of base times)."""
        ...


SESSION_EXPIRED = "no heartbeat within the session timeout"


def identity(client_id: str, client_host: str, instance_id: str | None) -> dict[str, str]:
    """Details of a member for its events. Only a static member has `instance_id`."""
    who = {"client_id": client_id, "client_host": client_host}
    return who if instance_id is None else {**who, "instance_id": instance_id}


def left_by_request(
    context: RequestContext, client_id: str, client_host: str, reason: str | None
) -> str:
    """The cause of a leave by LeaveGroup. If another client than the member's own sent the request,
    such as an administrator's, the cause names it. `reason`: the client's own words (KIP-800)."""
    own = (context.client_id, context.client_host) == (client_id, client_host)
    asked = f"removed by client {context.client_id} at {context.client_host}"
    cause = "the member asked to leave" if own else asked
    return f"{cause}: {reason}" if reason else cause
