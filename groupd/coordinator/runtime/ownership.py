"""Which units this node serves: all that the parts of a broker know of a cluster.

`Ownership` answers questions; a `UnitServer` is told to serve a unit or to give it up. A node that
is alone serves everything (`SingleNodeOwnership`), so the same code works for both.
"""

from __future__ import annotations

from typing import Protocol

from groupd.storage.units import (
    Unit,
)


class Ownership(Protocol):
    """What this node knows of the units. All methods are cheap, because they are called for each
    request."""

    def serves(self, unit: Unit) -> bool:
        """Whether this node may answer for the unit in this very moment: it owns the unit and its
        lease has not run out."""
        ...

    def may_answer(self) -> bool:
        """Whether the lease of this node has not run out. Asked before each answer from memory."""
        ...

    async def answering(self, since_ms: int) -> bool:
        """Wait until this node may answer, but at most until one lease after `since_ms` by the
        monotonic clock. Returns whether it may."""
        ...

    def leader(self, unit: Unit) -> int | None:
        """The node to which clients are sent for the unit; None while there is none."""
        ...

    def leader_epoch(self, unit: Unit, since: int = 0) -> int:
        """The epoch at which `leader` leads the unit. It is counted from `since`, the epoch at
        which a partition of the unit was created: that is the leader epoch that clients see. -1:
        this node does not know yet which node has led the unit since then. 0 where a node is
        alone."""
        ...

    def only_leader(self) -> tuple[int, int] | None:
        """(leader, epoch) if they are the same for all units; None if they may differ."""
        ...


class UnitServer(Protocol):
    """Serves units of one kind. Calls for the same unit never overlap."""

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Load the unit and serve it. Returns when the unit is served, or when it cannot be loaded
        for now and is tried again later. `give_up` and `drop` end those attempts."""
        ...

    async def give_up(self, unit: Unit) -> None:
        """Refuse new requests, make durable and answer what is under way. Afterwards nothing is
        read or written for the unit any more. The unit may never have been served."""
        ...

    def drop(self, unit: Unit) -> None:
        """The lease has run out: refuse everything at once and forget the unit. Writes that are
        under way are fenced by the store."""
        ...


class SingleNodeOwnership:
    """The ownership of a node without a cluster."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def serves(self, unit: Unit) -> bool:
        return True

    def may_answer(self) -> bool:
        return True

    async def answering(self, since_ms: int) -> bool:
        return True

    def leader(self, unit: Unit) -> int | None:
        return self._node_id

    def leader_epoch(self, unit: Unit, since: int = 0) -> int:
        return 0

    def only_leader(self) -> tuple[int, int] | None:
        return self._node_id, 0
