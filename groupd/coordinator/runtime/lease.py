"""When the stored reply to a steady heartbeat may be sent again.

The core's lease says that group, member and settings have not changed. What the core cannot see is
added here: the shard is the one that gave the lease and still serves, and no record of the group
waits for the log. ADR 10 says what this costs to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Protocol

from groupd.coordinator.core.types import Steady
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.shard_state import CoordinatorState

_ACTIVE = CoordinatorState.ACTIVE


class LeaseHolder(Protocol):
    """The shard runtime, as far as a lease asks it."""

    machine: Any
    state: CoordinatorState
    clock: Clock

    @property
    def may_answer(self) -> Callable[[], bool]: ...


class ShardLease:
    """A core lease, bound to the shard that gave it. `pending`: the groups with records that are
    not durable yet, as the journal of that shard knows them."""

    __slots__ = ("_group_id", "_holder", "_machine", "_now_ms", "_pending", "_renew")

    def __init__(self, holder: LeaseHolder, pending: Container[str], lease: Steady) -> None:
        self._holder = holder
        self._machine = holder.machine
        self._pending = pending
        self._group_id = lease.group_id
        self._renew = lease.renew
        self._now_ms = holder.clock.monotonic_ms

    def renew(self) -> bool:
        """See `groupd.coordinator.runtime.waiting.Lease`."""
        holder = self._holder
        return (
            holder.machine is self._machine
            and holder.state is _ACTIVE
            and holder.may_answer()
            and not (self._pending and self._group_id in self._pending)
            and self._renew(self._now_ms())
        )
