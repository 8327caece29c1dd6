"""Metrics of the cleaners and of the event loop."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.families import gauge, total

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


class TopicCleaningCollector(Collector):
    """Of the main process: it has the topics."""

    def __init__(self, cleaner: TopicCleaner) -> None:
        self._cleaner = cleaner

    def collect(self) -> Iterable[Metric]:
        deleted, compacted = self._cleaner.retention.deleted, self._cleaner.compaction.compacted
        yield total("groupd_retention_batches_deleted", "Batches that were too old.", deleted.rows)
        yield total("groupd_retention_bytes_deleted", "Their bytes.", deleted.size)
        yield total("groupd_compaction_runs", "Partitions of topics compacted.", compacted.runs)
        yield total("groupd_compaction_records_read", "Records looked at.", compacted.read)
        yield total("groupd_compaction_records_dropped", "Records left out.", compacted.dropped)
        yield total(
            "groupd_topic_cleaning_failures",
            "Retention and compaction of topics that failed.",
            self._cleaner.failures,
        )
