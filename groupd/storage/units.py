"""Units: what one node of a cluster serves at a time."""

from __future__ import annotations

from typing import NamedTuple

GROUPS = "groups"
"""A shard of groups: a partition of `__consumer_offsets`."""

TRANSACTIONS = "transactions"
"""A shard of transactional ids: a partition of `__transaction_state`."""

SHARE_STATE = "share-state"
"""Some of the share-partitions: a partition of `__share_group_state`."""

PARTITIONS = "partitions"
"""A bucket of topic partitions, which one node leads."""


class Unit(NamedTuple):
    """`kind`: `GROUPS`, `TRANSACTIONS` or `SHARE_STATE` for a shard of that coordinator, or
    `PARTITIONS`. `number`: counted from 0."""

    kind: str
    number: int


class OwnedUnit(NamedTuple):
    """A unit that this node owns, and the epoch at which it owns the unit."""

    unit: Unit
    epoch: int
