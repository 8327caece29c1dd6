"""What a server-side assignor is given and gives (spec: assignors, section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from groupd.protocol.messages import TopicId

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partitions by topic: tuples ascending and never empty, topics in ascending order."""


class SubscriptionType(Enum):
    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


class MemberSpec(Struct, frozen=True):
    """One member as an assignor sees it. `assigned`: its entry in the current target."""

    topic_ids: frozenset[TopicId]
    assigned: Assignment
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(Protocol):
    """Input of an assignor; read-only. `members` iterate ascending by id."""

    @property
    def members(self) -> Mapping[str, MemberSpec]: ...

    @property
    def subscription_type(self) -> SubscriptionType: ...

    def is_assigned(self, topic_id: TopicId, partition: int) -> bool:
        """Whether some member's `assigned` holds the partition."""
        ...


class TopicDescriber(Protocol):
    def num_partitions(self, topic_id: TopicId) -> int:
        """-1 if unknown."""
        ...

    def name(self, topic_id: TopicId) -> str | None: ...

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]: ...


class AssignorError(Exception):
    """An assignor cannot or did not produce a valid assignment."""


class PartitionAssignor(Protocol):
    """A pure function with a unique name. An unchanged member should get its prior object back.

    `assign` returns an entry per member; a member absent from the result has an empty target.

    For large groups it may also have `assign_steps`, with the same arguments: a generator that
    returns the same and yields every few milliseconds, so that others are served in between.
    """

    @property
    def name(self) -> str: ...

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]: ...
