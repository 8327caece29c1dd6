"""Questions of the shell to one shard, where the wire's request speaks of many groups."""

from __future__ import annotations

from groupd.protocol.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DescribeClassicGroup:
    """One entry of DescribeGroups; answered with a `DescribedGroup`."""

    group_id: str
    include_authorized_operations: bool


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroup:
    """One entry of ConsumerGroupDescribe; answered with a `DescribedConsumerGroup`."""

    group_id: str
    include_authorized_operations: bool
