"""Replies that may be sent again without handling the request (design: bytes to bytes).

A lease of the core says that the state has not moved; this adds what the core cannot see: the
shard is the one that gave it and serves, and nothing of the group waits for the log.
"""

from __future__ import annotations

from typing import Protocol

from coordinator.core.shard import GroupCoordinatorShard
from coordinator.core.types import Steady


class SteadyReply(Protocol):
    """What a connection keeps beside the bytes of a reply."""

    def renew(self, now_ms: int) -> bool:
        """The same request came again: True = send the same reply."""
        ...


class LeaseHolder(Protocol):
    """The shard runtime, as far as a lease asks it."""

    def rests(self, shard: GroupCoordinatorShard, group_id: str) -> bool:
        """Whether `shard` still serves and nothing of the group waits for the log."""
        ...


class ShardLease:
    """A core lease, bound to the shard that gave it."""

    __slots__ = ("_holder", "_lease", "_shard")

    def __init__(self, holder: LeaseHolder, shard: GroupCoordinatorShard, lease: Steady) -> None:
        self._holder = holder
        self._shard = shard
        self._lease = lease

    def renew(self, now_ms: int) -> bool:
        lease = self._lease
        return self._holder.rests(self._shard, lease.group_id) and lease.renew(now_ms)
