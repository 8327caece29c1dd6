"""Cleans all topics in turn: retention every `log.retention.check.interval.ms`, compaction every
`log.cleaner.backoff.ms` while there is a topic to compact. It cleans one partition at a time, in
small pieces with rests in between. A partition that cannot be cleaned stays as it is, and the next
one follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from groupd.coordinator.cleaning.compaction import TopicCompaction
from groupd.coordinator.cleaning.retention import Retention
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.coordinator.runtime.log_cleaning import Rests, Sleep
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.topic import Topic, log_name
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError
from groupd.protocol.records.batch import CorruptBatch
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.storage.log import LogError, LogFenced, LogUnavailable, MeasuredLogs

log = structlog.get_logger("groupd.cleaner")

PartitionCheck = Callable[[Topic, int, TopicSettings], Awaitable[None]]

REST_S = 0.002
STEPS = 16
"""Steps of a generator between two rests. A step covers some hundred records at most."""

PARTITIONS = 50
"""Partitions that are checked between two rests."""


class TopicCleaner:
    """Works between `start` and `close`, on the running loop."""

    def __init__(
        self,
        data_plane: DataPlane,
        logs: MeasuredLogs,
        config: CoordinatorConfig,
        clock: Clock,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._catalogue = data_plane.catalogue
        self._config = config
        self._broker = data_plane.broker_configs
        self._clock = clock
        self._rests = Rests(STEPS, partial(sleep, REST_S))
        partitions = data_plane.partitions
        self.retention = Retention(partitions, logs, clock.now, self._rests)
        self.compaction = TopicCompaction(
            partitions,
            logs,
            clock.now,
            self._rests,
            config,
        )
        self.failures = 0
        self._retention_alarm = Alarm(clock, self._retention_due)
        self._compaction_alarm = Alarm(clock, self._compaction_due)
        self._due: list[Callable[[], Awaitable[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._bad: set[str] = set()
        """Partitions that are damaged or need a codec that is not installed. They are skipped until
        a restart."""

    @property
    def busy(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        self._set_retention_alarm()
        if self._config.log_cleaner_enable:
            self._set_compaction_alarm()
            self._catalogue.add_config_listener(self._set_compaction_alarm)
            self._broker.add_listener(lambda name, overrides: self._set_compaction_alarm())

    async def close(self) -> None:
        """Stop. A transaction of the store that is under way may still end by itself."""
        self._closed = True
        self._retention_alarm.cancel()
        self._compaction_alarm.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # When ---------------------------------------------------------------------------------

    def _set_retention_alarm(self) -> None:
        interval_ms = self._config.log_retention_check_interval_ms
        self._retention_alarm.at_latest(self._clock.now().monotonic_ms + interval_ms)

    def _set_compaction_alarm(self) -> None:
        if not self._closed:
            interval_ms = self._config.log_cleaner_backoff_ms
            self._compaction_alarm.at_latest(self._clock.now().monotonic_ms + interval_ms)

    def _retention_due(self) -> None:
        self._set_retention_alarm()
        self._begin(self.check_retention)

    def _compaction_due(self) -> None:
        if any(self._settings(topic).has_policy("compact") for topic in self._topics()):
            self._set_compaction_alarm()
            self._begin(self.check_compaction)

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        if work not in self._due:
            self._due.append(work)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="topic-cleaner")

    async def _run(self) -> None:
        try:
            while self._due:
                await self._due[0]()
                self._due.pop(0)
        except LogUnavailable as error:
            self.failures += 1
            log.warning("topics cannot be cleaned now", reason=str(error))
        finally:
            self._due.clear()
            self._task = None

    # What ---------------------------------------------------------------------------------

    async def check_retention(self) -> None:
        """Check every partition of every topic once."""
        await self._each(self.retention.check)

    async def check_compaction(self) -> None:
        """Check every partition of every topic once."""
        known = {
            log_name(topic.topic_id, partition)
            for topic in self._topics()
            for partition in range(topic.partitions)
        }
        self.compaction.forget(known)
        self._bad &= known
        await self._each(self.compaction.check)

    def _topics(self) -> list[Topic]:
        return [topic for topic in self._catalogue.topics() if not topic.internal]

    def _settings(self, topic: Topic) -> TopicSettings:
        return TopicSettings(self._broker.config, topic.configs)

    async def _each(self, check: PartitionCheck) -> None:
        looked_at = 0
        for topic in self._topics():
            for partition in range(topic.partitions):
                looked_at += 1
                if looked_at % PARTITIONS == 0:
                    await self._rests.turn()
                await self._one(check, topic, partition)

    async def _one(self, check: PartitionCheck, topic: Topic, partition: int) -> None:
        name = log_name(topic.topic_id, partition)
        if name in self._bad:
            return
        try:
            await check(topic, partition, self._settings(topic))
        except LogUnavailable:
            raise
        except (ApiError, LogFenced):
            return  # deleted or opened anew meanwhile: the next round checks it again
        except ValueError as error:
            log.debug("records were deleted meanwhile", topic=topic.name, reason=str(error))
        except (LogError, CorruptBatch, UnsupportedCodec) as error:
            self._failed(topic, partition, error)
        except Exception as error:
            # A bug of ours. The log is unchanged, and the next partitions follow.
            log.exception("cleaning failed", topic=topic.name, partition=partition)
            self._failed(topic, partition, error)

    def _failed(self, topic: Topic, partition: int, error: Exception) -> None:
        self.failures += 1
        self._bad.add(log_name(topic.topic_id, partition))
        log.warning(
            "partition is not cleaned any more until a restart",
            topic=topic.name,
            partition=partition,
            reason=str(error),
        )
