"""What a node has learned of the cluster: members and units as the database told of them last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.cluster.plan import plan
from groupd.coordinator.runtime.clock import Clock
from groupd.storage.cluster import (
    ClusterState,
    NodeFacts,
    NodeState,
    UnitState,
)
from groupd.storage.units import Unit


class AnotherTimeline(Exception):
    """The database server has been replaced by a standby. `str()`: its timeline."""


class ClusterView:
    """`counts`: how many units of each kind there are."""

    def __init__(self, node_id: int, clock: Clock, counts: Mapping[str, int]) -> None:
        self.members: tuple[NodeState, ...] = ()
        self.units: dict[Unit, UnitState] = {}
        self.units_version = -1
        self.catalogue = 0
        """The version of the newest change of the catalogue."""
        self.timeline = ""
        self.level = 1
        self.counts = counts
        self._node_id = node_id
        self._clock = clock
        self._seen_ms = 0

    def see(self, state: ClusterState) -> bool:
        """Take a newer state in; returns whether members or units have changed. Raises
        AnotherTimeline."""
        # The same number with older contents: two standbys were promoted from one timeline.
        other = self.timeline and (
            state.timeline != self.timeline or state.units_version < self.units_version
        )
        changed = state.units is not None or _facts(state.nodes) != _facts(self.members)
        self._seen_ms = self._clock.monotonic_ms()
        self.members, self.timeline, self.level = state.nodes, state.timeline, state.level
        self.catalogue = state.catalogue
        if state.units is not None:
            self.units = {one.unit: one for one in state.units}
            self.units_version = state.units_version
        if other:
            raise AnotherTimeline(state.timeline)
        return changed

    def forget(self) -> None:
        """The next state is to tell of all units."""
        self.units_version = -1

    def left_ms(self, one: NodeState) -> int:
        """How long the lease of a member lasts, as far as is known here."""
        return one.lease_left_ms - (self._clock.monotonic_ms() - self._seen_ms)

    @property
    def others(self) -> list[NodeState]:
        """The other members: those that have neither left nor been fenced."""
        return [one for one in self.members if one.facts.node_id != self._node_id]

    @property
    def live_others(self) -> list[NodeState]:
        """The other members whose leases last."""
        return [one for one in self.others if self.left_ms(one) > 0]

    def _live(self) -> list[NodeState]:
        return [one for one in self.members if self.left_ms(one) > 0]

    def behind(self, version: int) -> bool:
        """Whether another member may work with an older version of the catalogue."""
        # Others may have joined between this node's last look and the change.
        return self.catalogue < version or any(one.applied < version for one in self.others)

    @property
    def has_dead(self) -> bool:
        """Whether the lease of a member is over."""
        return len(self._live()) < len(self.members)

    @property
    def is_planned(self) -> bool:
        """Whether the plan in the database is that of the present members."""
        if self.missing or self.level < min((one.facts.level for one in self._live()), default=1):
            return False
        wanted = plan(self._live(), tuple(self.units.values()))
        return all(wanted.get(one.unit) == one.wanted for one in self.units.values())

    @property
    def missing(self) -> int:
        """How many units have not been made yet."""
        return max(0, sum(self.counts.values()) - len(self.units))

    def leader(self, unit: Unit) -> int | None:
        """The node that owns the unit. If nobody owns it, or this node gives it up: the node that
        is to have it next."""
        known = self.units.get(unit)
        if known is None:
            return None
        if known.owner in (None, self._node_id) and known.wanted is not None:
            return known.wanted
        return known.owner

    def epoch(self, unit: Unit) -> int:
        """The epoch at which `leader` leads. The next owner has a later one than the present owner,
        whom other nodes may still name: clients believe the later epoch, and some never leave a
        leader that had the same one (librdkafka, its pull request 5593)."""
        known = self.units.get(unit)
        if known is None:
            return 0
        return known.epoch if self.leader(unit) == known.owner else known.epoch + 1


def _facts(nodes: Sequence[NodeState]) -> list[tuple[NodeFacts, int, bool]]:
    return [(one.facts, one.incarnation, one.draining) for one in nodes]
