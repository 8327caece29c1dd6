"""The bounds of logs for the lag of groups (`groupd.coordinator.lag`): of open logs from memory, of
all others from the store, without opening them.

In a cluster the store tells where the logs of other nodes end, too. Elsewhere a log that is not
open stands still, so it is asked for once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from groupd.coordinator.core.slices import Steps, Work
from groupd.coordinator.lag.ends import Bounds, Found
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.coordinator.topics.catalogue import Topic
from groupd.coordinator.topics.names import log_name
from groupd.coordinator.topics.partitions import KnownTopics, Partitions
from groupd.coordinator.topics.time_search import TimeSearch
from groupd.storage.log import MeasuredLogs, StoredBatch

NAMES_AT_ONCE = 1000
"""Logs that the store is asked for at once."""

_NOT_WRITTEN = Bounds(0, 0)
"""A partition that nobody has written to has no log yet."""


class StoredEnds:
    """A `groupd.coordinator.lag.ends.LogEnds`. `unpacked_max_bytes`: batches that unpack to more
    are not looked into. `shared`: other nodes write to the same store."""

    def __init__(
        self,
        topics: KnownTopics,
        partitions: Partitions,
        logs: MeasuredLogs,
        work: LongWork,
        unpacked_max_bytes: int,
        *,
        shared: bool,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._logs = logs
        self._work = work
        self._shared = shared
        self._search = TimeSearch(Unpacking(work), unpacked_max_bytes)
        self._closed: Found = {}
        """Those that were not open when they were asked for last."""

    async def look(self, wanted: Mapping[str, Collection[int]]) -> Found:
        """See `LogEnds`."""
        found, closed, unknown = await self._work.run(self._known(wanted))
        for topic, names in unknown.items():
            for some in _parts(list(names), NAMES_AT_ONCE):
                stored = await self._logs.ends(some)
                for name in some:
                    bounds = Bounds(*stored[name]) if name in stored else _NOT_WRITTEN
                    found[topic][names[name]] = closed[topic][names[name]] = bounds
        self._closed = closed
        return found

    def _known(
        self, wanted: Mapping[str, Collection[int]]
    ) -> Steps[tuple[Found, Found, dict[str, dict[str, int]]]]:
        """The bounds that are known; those of them whose logs are not open; and the logs that the
        store must be asked for: by topic the partitions by the name of the log."""
        found: Found = {}
        closed: Found = {}
        unknown: dict[str, dict[str, int]] = {}
        work = Work()
        for name, numbers in wanted.items():
            topic = self._topic(name)
            if topic is None:
                continue
            of_topic, of_closed = found.setdefault(name, {}), closed.setdefault(name, {})
            before = {} if self._shared else self._closed.get(name, {})
            for number in numbers:
                opened = self._partitions.is_open(topic, number)
                if opened is not None:
                    of_topic[number] = Bounds(opened.start_offset, opened.high_watermark)
                elif number in before:
                    of_topic[number] = of_closed[number] = before[number]
                elif 0 <= number < topic.partitions:
                    unknown.setdefault(name, {})[log_name(topic.topic_id, number)] = number
                if work.enough(2):
                    yield
        return found, closed, unknown

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        """See `LogEnds`."""
        known = self._topic(topic)
        if known is None or not 0 <= partition < known.partitions:
            return None
        name = log_name(known.topic_id, partition)
        start, end = (await self._logs.ends([name])).get(name, (0, 0))
        log = _StoredLog(self._logs, name, start)
        found = await self._search.at_or_after(log, at_ms, end)
        return None if found is None else found[1]

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        """See `LogEnds`."""
        known = self._topic(topic)
        if known is None:
            return None
        batches = await self._logs.read(log_name(known.topic_id, partition), offset, 1)
        return batches[0].max_timestamp_ms if batches else None

    def _topic(self, name: str) -> Topic | None:
        topic = self._topics.topic(name)
        return None if topic is None or topic.internal else topic


class _StoredLog:
    """A log in the store, as `TimeSearch` asks it, whoever owns it."""

    def __init__(self, logs: MeasuredLogs, name: str, start_offset: int) -> None:
        self.start_offset = start_offset
        self._logs = logs
        self._name = name

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        found = await self._logs.read(self._name, from_offset, max_bytes, min_one=min_one)
        return [one.payload for one in found]

    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None:
        return await self._logs.first_at_or_after(self._name, timestamp_ms)

    async def with_max_timestamp(self) -> StoredBatch | None:
        return await self._logs.with_max_timestamp(self._name)


def _parts(names: list[str], size: int) -> list[list[str]]:
    return [names[first : first + size] for first in range(0, len(names), size)]
