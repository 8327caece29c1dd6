"""The parts of a history: committed offsets, their changes, and events of the group."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.core.group_type import LoggedEventKind
from groupd.protocol.messages import NO_TOPIC_ID, TopicId


class ChangeKind(Enum):
    """The kind of a change. `RESET`: the offset was moved while a group of a consumer protocol had
    no members, so by a tool or an operator. `SAME`: the same offset was committed again."""

    FIRST = "first"
    FORWARD = "forward"
    BACK = "back"
    SAME = "same"
    RESET = "reset"
    DELETED = "deleted"
    EXPIRED = "expired"


def kind_of_move(before: int | None, after: int, *, reset: bool) -> ChangeKind:
    """The kind of a change to the offset `after`. `reset`: a tool or an operator made it."""
    if before is None:
        return ChangeKind.FIRST
    if after == before:
        return ChangeKind.SAME
    if reset:
        return ChangeKind.RESET
    return ChangeKind.FORWARD if after > before else ChangeKind.BACK


class Actor(Enum):
    """Who probably made a change; commit records carry no member id.

    `OWNER`: the member that the partition was assigned to, by the log. `ADMIN`: a tool, an operator
    or a consumer without membership, as the group had no members. `UNKNOWN`: the group had members,
    and the log does not tell which of them owned the partition. `COORDINATOR`: the retention sweep.
    """

    OWNER = "owner"
    ADMIN = "admin/simple"
    UNKNOWN = "unknown"
    COORDINATOR = "coordinator"


class Author(Struct, frozen=True):
    """The author of a change. `epoch`: the member's epoch (consumer protocol), the group's
    generation (classic protocol) or the group epoch; -1 for none. `producer_id` >= 0: the commit
    was part of a transaction."""

    actor: Actor
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1


class CommittedOffset(Struct, frozen=True):
    """A committed offset. `log_offset`: the offset of the commit's record; `commit_time_ms`: the
    coordinator's clock at the commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    log_offset: int
    topic_id: TopicId = NO_TOPIC_ID

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


class OffsetChange(Struct, frozen=True):
    """A change of a committed offset. `before` or `after` is None where the partition had or has no
    offset. `log_offset`: where the change took effect, which is the commit's record, the
    transaction's marker, or the tombstone."""

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
    """An event of the group in the log. `epoch`: the generation, group epoch or member epoch,
    depending on the event."""

    kind: LoggedEventKind
    time_ms: int
    log_offset: int
    member_id: str = ""
    epoch: int = -1
    details: Mapping[str, Any] = field(default_factory=dict)


Change = OffsetChange | LoggedGroupEvent


def who_moved(change: OffsetChange) -> str:
    """Says who moved an offset, as far as the log tells, and why."""
    author = change.author
    words = [author.actor.value]
    if author.actor is Actor.OWNER:
        words.append(author.member_id)
        if author.client_id:
            words.append(f"client={author.client_id}{author.client_host}")
    if author.epoch >= 0:
        words.append(f"epoch={author.epoch}")
    if author.producer_id >= 0:
        words.append(f"transaction of producer {author.producer_id}")
    if change.cause:
        words.append(f"({change.cause})")
    return " ".join(words)
