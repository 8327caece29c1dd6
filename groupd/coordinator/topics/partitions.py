"""The open partitions. A log is opened on first use, and dropped after a failed append or with its
topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.ownership import Ownership
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.checks import refusal
from groupd.coordinator.topics.coordinator_logs import CoordinatorLog, CoordinatorLogView
from groupd.coordinator.topics.partition import PartitionLog, ReadableLog, open_partition
from groupd.coordinator.topics.stored_batches import NO_EPOCH, TailCache, check_leader_epoch
from groupd.coordinator.topics.topic import Topic, log_name
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.storage.log import LogCorrupt, LogError, PartitionLogs
from groupd.storage.units import OwnedUnit, Unit

log = structlog.get_logger("groupd.topics")


class Partitions:
    """Finds the log for the topic and partition of a request. `views`: the logs of each
    coordinator, by its kind; they may be added later. `ownership`: which partitions this node
    leads."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        logs: PartitionLogs,
        views: Mapping[str, CoordinatorLogView],
        ownership: Ownership,
    ) -> None:
        self._catalogue = catalogue
        self._logs = logs
        self._views = views
        self._ownership = ownership
        self.on_drop: list[Callable[[PartitionLog], None]] = []
        """Called with each open log that is dropped: from then on only the store has what was
        written."""
        self._cache = TailCache()
        self._open: dict[str, PartitionLog] = {}
        self._opening: dict[str, asyncio.Task[PartitionLog]] = {}
        self._closed = False
        self._damage: set[str] = set()
        catalogue.add_listener(self._on_metadata)

    def resolve(
        self,
        name: str,
        topic_id: TopicId,
        partition: int,
        may: Callable[[str], bool],
        *,
        by_id: bool,
    ) -> Topic:
        """The topic of a request's partition. `by_id`: the request names the topic by id.
        `may(name)`: whether the client has the right to the topic; without the right, a topic gets
        the same error whether it exists or not. Raises ApiError UNKNOWN_TOPIC_ID (only by id),
        TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, in this order."""
        topic = self._catalogue.topic_by_id(topic_id) if by_id else self._catalogue.topic(name)
        if topic is None and by_id:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not may(name if topic is None else topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic is None or not 0 <= partition < topic.partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def resolve_name(self, name: str, partition: int) -> Topic:
        """Like `resolve`, for APIs that only have names. It checks no right."""
        topic = self._catalogue.topic(name)
        if topic is None or not 0 <= partition < topic.partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def is_open(self, topic: Topic, partition: int) -> PartitionLog | None:
        """The partition's log if it is open and this node leads it, else None."""
        log = self._open.get(log_name(topic.topic_id, partition))
        return log if log is not None and self.leads(log) else None

    def leads(self, log: PartitionLog) -> bool:
        """Whether this node still leads the partition of an open log: its lease may be over."""
        return self._ownership.serves(log.unit)

    def ends(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark) if the log is open; opening it would read all of it. None:
        there is no such partition, or its log is not open here."""
        known = self._catalogue.topic(topic)
        opened = None if known is None else self.is_open(known, partition)
        return None if opened is None else (opened.start_offset, opened.high_watermark)

    async def open(self, topic: Topic, partition: int) -> PartitionLog:
        """The partition's log, opened if needed. Raises LogError, and ApiError if the topic was
        deleted meanwhile, or NOT_LEADER_OR_FOLLOWER if another node leads the partition."""
        name = log_name(topic.topic_id, partition)
        unit = topic.unit(partition)
        if self._closed:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker shuts down")
        self._check_leads(unit)
        log = self._open.get(name)
        if log is not None:
            return log
        task = self._opening.get(name)
        if task is None:
            owned = OwnedUnit(unit, self._ownership.leader_epoch(unit))
            epoch = self._ownership.leader_epoch(unit, topic.first_epoch(partition))
            task = asyncio.create_task(self._do_open(topic, partition, name, owned, epoch))
            self._opening[name] = task
            task.add_done_callback(lambda done: self._opened(name, done))
        log = await asyncio.shield(task)
        self._check_leads(unit)
        return log

    def _check_leads(self, unit: Unit) -> None:
        """Raises ApiError NOT_LEADER_OR_FOLLOWER if this node does not serve the unit."""
        if not self._ownership.serves(unit):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node leads the partition")

    async def readable(
        self, topic: Topic, partition: int, leader_epoch: int = NO_EPOCH
    ) -> ReadableLog:
        """Like `open`, but also for the topics of the coordinators' logs. `leader_epoch`: the
        leader epoch that the client knows, -1 if it names none. Raises ApiError FENCED_LEADER_EPOCH
        or UNKNOWN_LEADER_EPOCH if the leader's epoch is another one (as in Kafka, also if another
        node leads), and NOT_LEADER_OR_FOLLOWER if a coordinator's log is not served now."""
        unit = topic.unit(partition)
        current = self._ownership.leader_epoch(unit, topic.first_epoch(partition))
        check_leader_epoch(current, leader_epoch)
        if topic.coordinator is None:
            return await self.open(topic, partition)
        self._check_leads(unit)
        view = self._views.get(topic.coordinator.kind)
        if view is None or view.state(partition) is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return CoordinatorLog(
            view,
            self._logs,
            partition,
            topic.coordinator.topic.log_name(partition),
            None if topic.listed else topic.log_name(partition),
            current,
        )

    async def delete_before(self, topic: Topic, partition: int, offset: int) -> PartitionLog:
        """Delete the records below `offset`, which is not above the high watermark. Raises as
        `open`."""
        log = await self.open(topic, partition)
        try:
            await self._logs.truncate_before(log.name, offset, log.owner_epoch)
        except LogError:
            self.drop(log)  # only the store knows whether the records are deleted
            raise
        # The log may have been opened anew meanwhile, with the old start offset.
        log = await self.open(topic, partition)
        log.truncated(offset)
        return log

    def producers(self) -> list[ProducerStates]:
        return [log.producers for log in self._open.values()]

    def drop(self, log: PartitionLog) -> None:
        """Drop a log: its next user opens it again from the store."""
        log.close()
        if self._open.get(log.name) is log:
            del self._open[log.name]
        for tell in self.on_drop:
            tell(log)

    def refusal(self, error: ApiError | LogError) -> ApiError:
        """The error that a client gets for its partition. Each damage is logged once for the
        operator, because clients see only an error code and retry."""
        if isinstance(error, LogCorrupt) and (reason := str(error)) not in self._damage:
            self._damage.add(reason)
            log.error("a partition is damaged", reason=reason)
        return refusal(error)

    async def forget(self, unit: Unit) -> None:
        """Close the logs of a unit before another node leads it, after waiting for those being
        opened. Nothing of the unit is opened any more, see `Ownership.serves`."""
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        self.drop_unit(unit)

    def drop_unit(self, unit: Unit) -> None:
        """Close the logs of a unit at once."""
        for log in [log for log in self._open.values() if log.unit == unit]:
            self.drop(log)

    async def close(self) -> None:
        """Close all logs, after waiting for those being opened. Nothing is opened any more."""
        self._closed = True
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for log in list(self._open.values()):
            self.drop(log)

    async def _do_open(
        self, topic: Topic, partition: int, name: str, owned: OwnedUnit, epoch: int
    ) -> PartitionLog:
        log = await open_partition(self._logs, self._cache, topic.topic_id, partition, owned, epoch)
        if self._ownership.leader_epoch(owned.unit) != owned.epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node leads the partition")
        # The unit may have been dropped meanwhile, although this node does not know the next owner
        # yet.
        self._check_leads(owned.unit)
        if self._catalogue.topic_by_id(topic.topic_id) is None:
            # The topic was deleted meanwhile: opening may have made the log again.
            await self._logs.delete([name])
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._open[name] = log
        return log

    def _opened(self, name: str, task: asyncio.Task[PartitionLog]) -> None:
        del self._opening[name]
        if not task.cancelled():
            task.exception()  # read here, because every waiter may have been cancelled

    def _on_metadata(self, delta: MetadataDelta) -> None:
        gone = {topic_id for _, topic_id in delta.deleted}
        if gone:
            for log in [log for log in self._open.values() if log.topic_id in gone]:
                self.drop(log)
