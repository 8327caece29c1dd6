"""Metrics of the cleaner and of the event loop."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coordinator.runtime.cleaner import Cleaner
from coordinator.runtime.loop_stalls import LoopStalls
from coordinator.server.families import gauge, total

NS_PER_S = 1_000_000_000


class LogCollector(Collector):
    def __init__(self, cleaner: Cleaner, stalls: LoopStalls) -> None:
        self._cleaner = cleaner
        self._stalls = stalls

    def collect(self) -> Iterable[Metric]:
        stats = self._cleaner.stats
        yield total("groupd_cleaner_runs", "Logs cleaned.", stats.runs)
        yield total("groupd_cleaner_records_read", "Records the cleaner has read.", stats.read)
        yield total("groupd_cleaner_records_dropped", "Records left out by it.", stats.dropped)
        yield total("groupd_cleaner_failures", "Cleanings that failed.", stats.failures)
        yield gauge(
            "groupd_cleaner_dirty_records",
            "Records that a start would read uncompacted.",
            self._cleaner.dirty_records,
        )
        longest = self._stalls.longest_ns() / NS_PER_S
        yield gauge("groupd_event_loop_stall_seconds", "Longest stall of the last minute.", longest)
        yield total("groupd_event_loop_delays", "Stalls of 10 ms and more.", self._stalls.delays)
        yield total("groupd_event_loop_stalls", "Stalls of 50 ms and more.", self._stalls.stalls)
