"""What a server-side assignor gets and returns (docs/spec/assignors.md#1; for authors of one:
docs/assignors.md)."""

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
    """One member as an assignor sees it. `topic_ids`: the topics it subscribes to; `assigned`: its
    entry in the current target."""

    topic_ids: frozenset[TopicId]
    assigned: Assignment
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(Protocol):
    """The group that an assignor gets; read-only. `members`: by member id, ascending."""

    @property
    def members(self) -> Mapping[str, MemberSpec]: ...

    @property
    def subscription_type(self) -> SubscriptionType: ...

    def is_assigned(self, topic_id: TopicId, partition: int) -> bool:
        """Whether some member's `assigned` holds the partition."""
        ...


class TopicDescriber(Protocol):
    """The topics that an assignor gets, as of one moment."""

    def num_partitions(self, topic_id: TopicId) -> int:
        """-1 if unknown."""
        ...

    def name(self, topic_id: TopicId) -> str | None: ...

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]: ...


class AssignorError(Exception):
    """An assignor cannot or did not produce a valid assignment."""


class PartitionAssignor(Protocol):
    """A pure function with a unique name.

    `assign` returns the new assignment by member id. A member that is missing from it gets nothing;
    a member whose assignment does not change should get its `assigned` object back. Raises
    AssignorError to refuse.

    For large groups an assignor may also have `assign_steps`, with the same arguments: a generator
    that returns the same and yields every few milliseconds, so that other requests are served in
    between.
    """

    @property
    def name(self) -> str: ...

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]: ...
