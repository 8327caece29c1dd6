"""Questions to one shard, for requests on the wire that name many groups."""

from __future__ import annotations

from msgspec import Struct


class DescribeClassicGroup(Struct, frozen=True):
    """One entry of DescribeGroups; answered with a `DescribedGroup`."""

    group_id: str
    include_authorized_operations: bool


class DescribeConsumerGroup(Struct, frozen=True):
    """One entry of ConsumerGroupDescribe; answered with a `DescribedConsumerGroup`."""

    group_id: str
    include_authorized_operations: bool


class ListSomeGroups(Struct, frozen=True):
    """A part of ListGroups: those of `group_ids` that match; answered with a `ListGroupsReply`.
    `states`, `types`: lower case; empty ones match everything."""

    group_ids: tuple[str, ...]
    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class DeleteGroup(Struct, frozen=True):
    """One entry of DeleteGroups; answered with a `DeletedGroup`."""

    group_id: str


class DeleteSomeOffsets(Struct, frozen=True):
    """Deletes at most `at_most` offsets of a group that may be deleted now. Its answer says
    nothing: the `DeleteGroup` that follows has the one that counts."""

    group_id: str
    at_most: int
