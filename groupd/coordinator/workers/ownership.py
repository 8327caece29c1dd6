"""Who leads what where groups are spread over workers: fixed for the life of the main process."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.runtime.ownership import Alone
from groupd.storage.units import GROUPS, Unit


class MainOwnership(Alone):
    """The main process leads everything but the shards of groups. `workers`: the node of each
    shard."""

    def __init__(self, node_id: int, workers: Mapping[int, int]) -> None:
        super().__init__(node_id)
        self._workers = workers

    def leader(self, unit: Unit) -> int | None:
        return self._workers[unit.number] if unit.kind == GROUPS else super().leader(unit)

    def only_leader(self, kind: str) -> tuple[int, int] | None:
        return None if kind == GROUPS else super().only_leader(kind)


class WorkerOwnership(Alone):
    """A worker serves its shards of groups and nothing else; which these are its broker knows, and
    who leads the rest the main process."""

    def serves(self, unit: Unit) -> bool:
        return unit.kind == GROUPS

    def leader(self, unit: Unit) -> int | None:
        return None

    def only_leader(self, kind: str) -> tuple[int, int] | None:
        return None
