"""Replies that may be sent again without handling the request (design: bytes to bytes).

A lease of the core says that the state has not moved; this adds what the core cannot see: the
shard is the one that gave it and serves, and nothing of the group waits for the log.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Steady
from groupd.coordinator.runtime.shard_state import ShardState

_ACTIVE = ShardState.ACTIVE


class SteadyReply(Protocol):
    """What a connection keeps beside the bytes of a reply."""

    def renew(self, now_ms: int) -> bool:
        """The same request came again: True = send the same reply."""
        ...


class LeaseHolder(Protocol):
    """The shard runtime, as far as a lease asks it."""

    shard: GroupCoordinatorShard
    state: ShardState


class ShardLease:
    """A core lease, bound to the shard that gave it. `pending`: the groups with records that are
    not durable yet, as the journal of that shard knows them."""

    __slots__ = ("_group_id", "_holder", "_pending", "_renew", "_shard")

    def __init__(self, holder: LeaseHolder, pending: Container[str], lease: Steady) -> None:
        self._holder = holder
        self._shard = holder.shard
        self._pending = pending
        self._group_id = lease.group_id
        self._renew = lease.renew

    def renew(self, now_ms: int) -> bool:
        holder = self._holder
        return (
            holder.shard is self._shard
            and holder.state is _ACTIVE
            and not (self._pending and self._group_id in self._pending)
            and self._renew(now_ms)
        )
