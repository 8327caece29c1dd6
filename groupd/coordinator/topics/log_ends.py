"""The bounds of logs, for the lag of groups (`groupd.coordinator.lag`). For open logs they come
from memory. For all others they come from the store, without opening the log.

In a cluster the store also knows the logs of other nodes, and is asked each time. Without a cluster
a log that is not open does not change, so the store is asked once: its answer holds until the log
has been open, or its topic is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.lag.growth import Bounds, Found
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partition_queries import TimeSearch
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic import Topic, log_name
from groupd.protocol.messages import TopicId
from groupd.storage.log import MeasuredLogs, StoredBatch

NAMES_AT_ONCE = 1000
"""How many logs are named in one call of the store."""

_NOT_WRITTEN = Bounds(0, 0)
"""The bounds of a partition to which nothing was ever written, and which has no log yet."""


class StoredEnds:
    """A `groupd.coordinator.lag.growth.LogEnds`. `unpacked_max_bytes`: batches that unpack to more
    are not searched. `shared`: other nodes write to the same store."""

    def __init__(
        self,
        topics: TopicCatalogue,
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
        self._closed: dict[TopicId, dict[int, Bounds]] = {}
        """The store's answers for logs that have not been open since then; empty if `shared`."""
        self._forgotten = 0
        """How often an answer was forgotten. An answer of the store that was requested before that
        is not kept."""
        partitions.on_drop.append(self._on_drop)
        topics.add_listener(self._on_metadata)

    async def look(self, wanted: Mapping[str, Collection[int]]) -> Found:
        """See `LogEnds`."""
        found, unknown = await self._work.run(self._known(wanted))
        for topic, names in unknown.values():
            for some in _parts(list(names), NAMES_AT_ONCE):
                forgotten = self._forgotten
                stored = await self._logs.ends(some)
                told = {
                    names[name]: Bounds(*stored[name]) if name in stored else _NOT_WRITTEN
                    for name in some
                }
                found[topic.name].update(told)
                if not self._shared and forgotten == self._forgotten:
                    self._closed.setdefault(topic.topic_id, {}).update(told)
        return found

    def _known(
        self, wanted: Mapping[str, Collection[int]]
    ) -> Steps[tuple[Found, dict[str, tuple[Topic, dict[str, int]]]]]:
        """The known bounds, and the logs to ask the store for: by topic, partition numbers by log
        name."""
        found: Found = {}
        unknown: dict[str, tuple[Topic, dict[str, int]]] = {}
        pace = Pace()
        for name, numbers in wanted.items():
            topic = self._topic(name)
            if topic is None:
                continue
            of_topic = found.setdefault(name, {})
            closed = self._closed.get(topic.topic_id, {})
            for number in numbers:
                if not 0 <= number < topic.partitions:
                    continue
                opened = self._partitions.is_open(topic, number)
                if opened is not None:
                    of_topic[number] = Bounds(opened.start_offset, opened.high_watermark)
                elif number in closed:
                    of_topic[number] = closed[number]
                else:
                    _, names = unknown.setdefault(name, (topic, {}))
                    names[log_name(topic.topic_id, number)] = number
                if pace.due(2):
                    yield
        return found, unknown

    def _on_drop(self, log: PartitionLog) -> None:
        self._forgotten += 1
        self._closed.get(log.topic_id, {}).pop(log.partition, None)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        for _, topic_id in delta.deleted:
            self._forgotten += 1
            self._closed.pop(topic_id, None)

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        """See `LogEnds`."""
        name = self._log_name(topic, partition)
        if name is None:
            return None
        start, end = (await self._logs.ends([name])).get(name, (0, 0))
        log = _StoredLog(self._logs, name, start)
        found = await self._search.at_or_after(log, at_ms, end)
        return None if found is None else found[1]

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        """See `LogEnds`."""
        name = self._log_name(topic, partition)
        batches = [] if name is None else await self._logs.read(name, offset, 1)
        return batches[0].max_timestamp_ms if batches else None

    def _log_name(self, topic: str, partition: int) -> str | None:
        """The name of the log of a partition; None if there is no such partition."""
        known = self._topic(topic)
        if known is None or not 0 <= partition < known.partitions:
            return None
        return log_name(known.topic_id, partition)

    def _topic(self, name: str) -> Topic | None:
        topic = self._topics.topic(name)
        return None if topic is None or topic.internal else topic


class _StoredLog:
    """A log in the store as `TimeSearch` needs it, whichever node owns it."""

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
