"""What a history consists of: committed offsets, their changes, and events of the group."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.core.group_type import LoggedEventKind
from groupd.protocol.messages import NO_TOPIC_ID, TopicId


class ChangeKind(Enum):
    """`RESET`: moved while the group of a consumer protocol had no members, so by a tool or an
    operator. `SAME`: committed again where it was."""

    FIRST = "first"
    FORWARD = "forward"
    BACK = "back"
    SAME = "same"
    RESET = "reset"
    DELETED = "deleted"
    EXPIRED = "expired"


class Actor(Enum):
    """Who probably wrote; commit records carry no member id.

    `OWNER`: the member that the log's assignment gave the partition to. `ADMIN`: a tool, an
    operator or a consumer without membership, as the group had no members. `UNKNOWN`: the
    group had members, and the log does not tell which of them owned the partition.
    `COORDINATOR`: the retention sweep.
    """

    OWNER = "owner"
    ADMIN = "admin/simple"
    UNKNOWN = "unknown"
    COORDINATOR = "coordinator"


class Author(Struct, frozen=True):
    """`epoch`: the member's epoch (consumer protocol), the group's generation (classic) or
    group epoch; -1 for none. `producer_id` >= 0: the commit was part of a transaction."""

    actor: Actor
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1


class CommittedOffset(Struct, frozen=True):
    """`log_offset`: the commit's record; `commit_time_ms`: the coordinator's clock then."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    log_offset: int
    topic_id: TopicId = NO_TOPIC_ID


class OffsetChange(Struct, frozen=True):
    """`before` or `after` is None where there was or is no offset. `log_offset`: where it took
    effect: the commit's record, the transaction's marker, or the tombstone."""

    kind: ChangeKind
    time_ms: int
    log_offset: int
    topic: str
    partition: int
    before: CommittedOffset | None
    after: CommittedOffset | None
    author: Author
    cause: str = ""


class LoggedGroupEvent(Struct, frozen=True):
    """`epoch`: generation, group epoch or member epoch, whichever the event is about."""

    kind: LoggedEventKind
    time_ms: int
    log_offset: int
    member_id: str = ""
    epoch: int = -1
    details: Mapping[str, Any] = field(default_factory=dict)


Change = OffsetChange | LoggedGroupEvent
