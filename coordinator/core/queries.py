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
