"""Requests to one shard that are made of client requests which name many groups."""

from __future__ import annotations

from msgspec import Struct


class DescribeClassicGroup(Struct, frozen=True):
    """One entry of a DescribeGroups; the answer is a `DescribedGroup`."""

    group_id: str
    include_authorized_operations: bool


class DescribeConsumerGroup(Struct, frozen=True):
    """One entry of a ConsumerGroupDescribe; the answer is a `DescribedConsumerGroup`."""

    group_id: str
    include_authorized_operations: bool


class DescribeShareGroup(Struct, frozen=True):
    """One entry of a ShareGroupDescribe; the answer is a `DescribedShareGroup`."""

    group_id: str
    include_authorized_operations: bool


class ListSharePartitions(Struct, frozen=True):
    """Asks which partitions of a share group have offsets; the answer is a mapping of partitions by
    topic id."""

    group_id: str


class ListSomeGroups(Struct, frozen=True):
    """A part of a ListGroups: those of `group_ids` that match; the answer is a `ListGroupsReply`.
    `states`, `types`: in lower case; an empty one matches everything."""

    group_ids: tuple[str, ...]
    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class DeleteGroup(Struct, frozen=True):
    """One entry of a DeleteGroups; the answer is a `DeletedGroup`."""

    group_id: str


class DeleteSomeOffsets(Struct, frozen=True):
    """Deletes at most `at_most` offsets of a group that may be deleted now. Its answer has no
    result; that of the `DeleteGroup` that follows counts."""

    group_id: str
    at_most: int
