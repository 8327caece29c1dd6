"""The bounds of logs for the lag of groups (`groupd.coordinator.lag`): of open logs from memory, of
all others from the store, without opening them.

In a cluster the store tells where the logs of other nodes end, too. Elsewhere a log that is not
open stands still, so it is asked for once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.pace import Pace
from groupd.coordinator.topics.catalogue import Topic
from groupd.coordinator.topics.names import log_name
from groupd.coordinator.topics.partitions import KnownTopics, Partitions
from groupd.storage.log import MeasuredLogs

TopicPartition = tuple[str, int]
Bounds = tuple[int, int]


class StoredEnds:
    """A `groupd.coordinator.lag.ends.LogEnds`. `shared`: other nodes write to the same store."""

    def __init__(
        self,
        topics: KnownTopics,
        partitions: Partitions,
        logs: MeasuredLogs,
        work: LongWork,
        *,
        shared: bool,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._logs = logs
        self._work = work
        self._shared = shared
        self._closed: dict[str, Bounds] = {}
        """By name of the log, those that were not open when they were asked for last."""

    async def look(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """See `LogEnds`."""
        pace = Pace(self._work)
        found: dict[TopicPartition, Bounds] = {}
        closed: dict[str, TopicPartition] = {}
        for place in places:
            if pace.due():
                await pace.turn()
            if (topic := self._topic(place)) is None:
                continue
            opened = self._partitions.is_open(topic, place[1])
            if opened is None:
                closed[log_name(topic.topic_id, place[1])] = place
            else:
                found[place] = opened.start_offset, opened.high_watermark
        known = {} if self._shared else self._closed
        new = [name for name in closed if name not in known]
        stored = await self._logs.ends(new) if new else {}
        # A partition that nobody has written to has no log yet.
        self._closed = {name: known.get(name) or stored.get(name, (0, 0)) for name in closed}
        found.update((closed[name], bounds) for name, bounds in self._closed.items())
        return found

    async def written_ms(self, place: TopicPartition, offset: int) -> int | None:
        """See `LogEnds`."""
        topic = self._topic(place)
        if topic is None:
            return None
        batches = await self._logs.read(log_name(topic.topic_id, place[1]), offset, 1)
        return batches[0].max_timestamp_ms if batches else None

    def _topic(self, place: TopicPartition) -> Topic | None:
        topic = self._topics.topic(place[0])
        if topic is None or topic.internal or not 0 <= place[1] < topic.partitions:
            return None
        return topic
