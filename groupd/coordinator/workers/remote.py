"""What a worker has of the main process: the store, the transaction coordinator, the topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.slices import chunks
from groupd.coordinator.lag.ends import Found, Wanted
from groupd.coordinator.producers.transactions import TransactionalWrite
from groupd.coordinator.topics.catalogue import MetadataListener, Topic
from groupd.coordinator.workers.channel import Channel
from groupd.coordinator.workers.messages import (
    Codes,
    LogPlace,
    LogRead,
    LogStart,
    Verify,
    WorkerOperation,
    decode_answer,
    encode,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.storage.log import Append, LogError, LogState, Replacement, StoredBatch
from groupd.storage.units import OwnedUnit

ENDS_AT_ONCE = 2000
"""Partitions whose ends are asked for at once."""


class RemoteLogs:
    """A `storage.log.PartitionLogs` whose every call is a call to the main process. A channel that
    ends in the middle of a call is LogUnavailable: what was written is unknown."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        return (await self.open_many([name]))[name]

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        states: dict[str, LogState] = await _call(self._channel, WorkerOperation.OPEN, names)
        return states

    async def append(self, batches: Sequence[Append]) -> None:
        if batches:
            await _call(self._channel, WorkerOperation.APPEND, batches)

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        read = LogRead(name, from_offset, max_bytes, min_one)
        found: list[StoredBatch] = await _call(self._channel, WorkerOperation.READ, read)
        return found

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        place = LogPlace(name, timestamp_ms)
        found: StoredBatch | None = await _call(
            self._channel, WorkerOperation.FIRST_AT_OR_AFTER, place
        )
        return found

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        found: StoredBatch | None = await _call(
            self._channel, WorkerOperation.WITH_MAX_TIMESTAMP, name
        )
        return found

    async def truncate_before(self, name: str, offset: int, owner_epoch: int | None = None) -> None:
        start = LogStart(name, offset, owner_epoch)
        await _call(self._channel, WorkerOperation.TRUNCATE_BEFORE, start)

    async def replace(self, change: Replacement) -> None:
        change.check()
        await _call(self._channel, WorkerOperation.REPLACE, change)

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        await _call(self._channel, WorkerOperation.DELETE, names)


class RemoteEnds:
    """A `groupd.coordinator.lag.ends.LogEnds`: the main process has the logs of topics."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def look(self, wanted: Wanted) -> Found:
        """Asks for some at a time, since an answer is read in one go."""
        found: Found = {}
        for topic, numbers in wanted.items():
            for some in chunks(numbers, ENDS_AT_ONCE):
                part = await _call(self._channel, WorkerOperation.ENDS, {topic: some})
                found.setdefault(topic, {}).update(part.get(topic, {}))
        return found

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        asked = (topic, partition, at_ms)
        found: int | None = await _call(self._channel, WorkerOperation.FIRST_AT, asked)
        return found

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        asked = (topic, partition, offset)
        written: int | None = await _call(self._channel, WorkerOperation.WRITTEN, asked)
        return written


async def _call(channel: Channel, operation: WorkerOperation, question: Any) -> Any:
    return decode_answer(operation, await channel.call(operation, encode(question)))


class RemoteVerifier:
    """A `coordinator.producers.transactions.TransactionVerifier` in the main process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def verify(self, write: TransactionalWrite, *, add: bool) -> Codes:
        """Raises ApiError COORDINATOR_NOT_AVAILABLE while the main process cannot be asked."""
        try:
            answer = await self._channel.call(WorkerOperation.VERIFY, encode(Verify(write, add)))
        except LogError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        codes: Codes = decode_answer(WorkerOperation.VERIFY, answer)
        return codes


class ReplicatedTopics:
    """A `coordinator.topics.partitions.KnownTopics`, without the topics' configs: what the main
    process has sent, never ahead of it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._listeners: list[MetadataListener] = []

    def topic(self, name: str) -> Topic | None:
        return _topic(self.image.by_name.get(name))

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return _topic(self.image.by_id.get(topic_id))

    def add_listener(self, listener: MetadataListener) -> None:
        self._listeners.append(listener)

    def apply(self, delta: MetadataDelta) -> None:
        self.image = delta.image
        for listener in self._listeners:
            listener(delta)


def _topic(image: TopicImage | None) -> Topic | None:
    if image is None:
        return None
    return Topic(image.topic_id, image.name, image.partitions, internal=image.internal)
