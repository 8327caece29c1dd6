"""An ownership that is in the hands of a test."""

from __future__ import annotations

from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.storage.units import PARTITIONS


class Owned(SingleNodeOwnership):
    """The ownership of node `node_id`: what it serves is in the hands of the test. `epochs` and
    `leaders` are what every node knows."""

    def __init__(self, node_id, leaders, epochs):
        super().__init__(node_id)
        self.leaders, self.epochs = leaders, epochs
        self.serving = set()

    def serves(self, unit):
        return unit.kind != PARTITIONS or unit in self.serving

    def leader(self, unit):
        return self.leaders.get(unit)

    def leader_epoch(self, unit, since=0):
        return max(-1, self.epochs.get(unit, 0) - since)

    def only_leader(self):
        return None
