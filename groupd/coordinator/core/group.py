"""What every type of group offers to offsets, administration and routing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.protocol.messages.offsets import CommitTopic
from groupd.protocol.records.schema import Record

ExpirationBase = Callable[[int], "int | None"]
"""Commit time (ms) -> the time from which retention counts; None = never expires."""


def commit_time(commit_timestamp_ms: int) -> int | None:
    """The `ExpirationBase` of offsets that expire by the time of their commit."""
    return commit_timestamp_ms


class Group(Protocol):
    """A group of any type."""

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
        """The group as owner of committed offsets; None for types whose groups have none, such as
        share groups (KIP-932)."""
        ...

    @property
    def members(self) -> Mapping[str, Any]:
        """The members by id; each has at least `member_id`, `client_id` and `client_host`."""
        ...

    @property
    def protocol_type(self) -> str:
        """ "" for a simple group (offsets only)."""
        ...

    def state_name(self) -> str:
        """The state as Kafka spells it: Empty, Stable, PreparingRebalance, Assigning, ..."""
        ...

    def is_empty(self) -> bool:
        """Whether the group has no members."""
        ...

    def awaits_members(self) -> bool:
        """Whether a member was given an id (KIP-394) and has not joined with it yet."""
        ...

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP unless the group may be deleted now, GROUP_ID_NOT_FOUND for a dead
        classic group."""
        ...

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        """A group of another type takes the id: no timer of this one may run any more."""
        ...

    def tombstones(self) -> list[Record]:
        """The group's own tombstones in the order of docs/spec/offsets-and-log.md#5.2, without
        offsets'."""
        ...


class OffsetOwner(Group, Protocol):
    """A group for which offsets are committed. The checks raise `ApiError` with the error code of
    docs/spec/offsets-and-log.md#3."""

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        topics: Sequence[CommitTopic],
        *,
        api_version: int,
        transactional: bool,
        skip_partition: Callable[[str, int], bool],
    ) -> None:
        """docs/spec/offsets-and-log.md#3.1 from "Then, first match" on. `skip_partition(topic,
        partition)`: partitions already refused on their own, which rule 7 leaves out."""
        ...

    def on_offset_commit(
        self, member_id: str, instance_id: str | None, now: Instant, deadlines: Deadlines
    ) -> None:
        """A plain (not transactional) commit of this group has passed all checks. Soft state
        only: a classic group in Stable or PreparingRebalance restarts the member's session
        timer (docs/spec/offsets-and-log.md#3.1, classic rule 6); other types do nothing."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """docs/spec/offsets-and-log.md#3.2."""
        ...

    def check_offset_delete(self) -> None:
        """docs/spec/offsets-and-log.md#3.3, the group's part (NON_EMPTY_GROUP, or
        GROUP_ID_NOT_FOUND for a dead classic group)."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """docs/spec/offsets-and-log.md#3.3 "Subscribed"."""
        ...

    def offset_expiration_base(self) -> ExpirationBase:
        """docs/spec/offsets-and-log.md#4, the table of base times."""
        ...


SESSION_EXPIRED = "no heartbeat within the session timeout"


def identity(client_id: str, client_host: str, instance_id: str | None) -> dict[str, str]:
    """Details of the events of a member; `instance_id` only of a static one."""
    who = {"client_id": client_id, "client_host": client_host}
    return who if instance_id is None else {**who, "instance_id": instance_id}


def left_by_request(
    context: RequestContext, client_id: str, client_host: str, reason: str | None
) -> str:
    """The cause of a leave by LeaveGroup. Another client than the member's own is named: an
    administrator may remove members. `reason`: the client's own words (KIP-800)."""
    own = (context.client_id, context.client_host) == (client_id, client_host)
    asked = f"removed by client {context.client_id} at {context.client_host}"
    cause = "the member asked to leave" if own else asked
    return f"{cause}: {reason}" if reason else cause
