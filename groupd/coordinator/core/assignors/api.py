"""What a server-side assignor gets and returns (docs/spec/assignors.md#1). Guide for authors of
assignors: docs/assignors.md."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct

from groupd.protocol.messages import TopicId

Assignment = Mapping[TopicId, tuple[int, ...]]
"""Partitions by topic id. Partitions are ascending and never empty, topics are ascending."""


class SubscriptionType(Enum):
    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


class MemberSpec(Struct, frozen=True):
    """One member as an assignor sees it. `topic_ids`: the topics it subscribes to; `assigned`: what
    the current target gives it."""

    topic_ids: frozenset[TopicId]
    assigned: Assignment
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(Protocol):
    """The group that an assignor gets; read-only. `members`: the members by member id,
    ascending."""

    @property
    def members(self) -> Mapping[str, MemberSpec]: ...

    @property
    def subscription_type(self) -> SubscriptionType: ...

    def is_assigned(self, topic_id: TopicId, partition: int) -> bool:
        """Whether the current target gives the partition to some member."""
        ...

    def is_assignable(self, topic_id: TopicId, partition: int) -> bool:
        """Whether a member may get the partition now. False only in share groups, for partitions
        whose state is not initialized yet (KIP-932)."""
        ...


class TopicDescriber(Protocol):
    """The topics that an assignor gets, as they were at one moment."""

    def num_partitions(self, topic_id: TopicId) -> int:
        """The number of partitions of the topic, -1 if the topic is unknown."""
        ...

    def name(self, topic_id: TopicId) -> str | None: ...

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]: ...


class AssignorError(Exception):
    """The assignor cannot produce a valid assignment, or its result was not valid."""


class PartitionAssignor(Protocol):
    """A pure function with a unique name.

    `assign` returns the new assignment by member id. A member that is missing from it gets nothing.
    For a member whose assignment does not change, `assign` should return the same `assigned`
    object. Raises AssignorError to refuse.

    For large groups an assignor may also have `assign_steps`, with the same arguments. It is a
    generator that returns what `assign` returns and yields every few milliseconds, so that other
    requests are served in between.
    """

    @property
    def name(self) -> str: ...

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]: ...
