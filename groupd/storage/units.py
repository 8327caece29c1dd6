"""Units: what one node of a cluster serves at a time."""

from __future__ import annotations

from typing import NamedTuple

GROUPS = "groups"
"""A shard of groups: a partition of `__consumer_offsets`."""

TRANSACTIONS = "transactions"
"""A shard of transactional ids: a partition of `__transaction_state`."""

PARTITIONS = "partitions"
"""A bucket of topic partitions, which one node leads."""


class Unit(NamedTuple):
    """`kind`: that of a coordinator, whose shard it is, or `PARTITIONS`; `number`: from 0."""

    kind: str
    number: int


class OwnedUnit(NamedTuple):
    """A unit that this node owns, at one epoch."""

    unit: Unit
    epoch: int
