"""What all shards of transactional ids of a node share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.producers.transactions import MarkerTarget
from groupd.coordinator.runtime.shard_state import RuntimeParts
from groupd.coordinator.transactions.legacy import LegacyLog
from groupd.storage.log import PartitionLogs


class MarkerCounts(Struct):
    """Since the start. `retries`: rounds of markers that were to be repeated."""

    written: int = 0
    retries: int = 0


class Surroundings(Struct, frozen=True):
    """`ids_in_all()`: how many ids there are in all shards of this node. `on_loaded()`: a shard
    serves. `on_settled(id)`: the id takes changes again. `parts`: what every shard has."""

    config: CoordinatorConfig
    logs: PartitionLogs
    parts: RuntimeParts
    markers: MarkerTarget
    legacy: LegacyLog
    counts: Counter[str]
    marker_counts: MarkerCounts
    ids_in_all: Callable[[], int]
    on_loaded: Callable[[], None]
    on_settled: Callable[[str], None]
