"""The dead-letter queues of share groups (KIP-1191): records that were rejected, or delivered too
often, are copied to a topic that the group names (docs/spec/share-group.md#4.7).

A copy says in its headers where the record comes from. Key and value are copied if the group wants
that, and only if they can be read. What cannot be copied is given up after some attempts: the
records are archived in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import WORK_ITEMS, Steps
from groupd.coordinator.core.types import NO_TOKEN, RequestContext
from groupd.coordinator.runtime.clock import Clock, pause
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.coordinator.share_partitions.counts import ShareCounts
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings
from groupd.coordinator.share_partitions.in_flight_types import DeadLetters
from groupd.coordinator.share_partitions.reading import read_batches
from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.topic import Topic
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import (
    READ_UNCOMMITTED,
    ProducePartition,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.records.batch import BatchHeader, BatchRecord, CorruptBatch, iter_batches
from groupd.protocol.records.batch import read_records as raw_records
from groupd.protocol.records.batch_builder import plain_batch
from groupd.protocol.records.compression import Plain, UnpacksTooLarge, UnsupportedCodec
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.share")

ATTEMPTS = 5
FIRST_PAUSE_MS = 1_000
LAST_PAUSE_MS = 30_000
"""Kafka's numbers. Each pause is twice as long as the one before."""

BURIALS_AT_ONCE = 32
"""So many share-partitions copy records at the same time. Each takes a few MiB, and those whose
topic cannot be reached take half a minute. The others wait; their records stay in flight."""
PRODUCE_VERSION = 12
"""The last version of Produce that names topics by name."""
COPIED_AT_ONCE = 500
"""How many records are read and copied in one go."""
READ_BYTES = 1 << 20
RECORD_OVERHEAD_BYTES = 100
"""More than what the fields of a copy take besides key, value and headers."""

SendRecords = Callable[[Topic, int, ProduceRequest], Coroutine[Any, Any, ProduceReply]]
"""Sends records to the leader of a partition. Raises ApiError, LogError."""

_AGAIN = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION})
_WHY = {
    DeliveryEnd.REJECTED: b"Offset rejected by client.",
    DeliveryEnd.LIMIT: b"Offset delivery count exceeded the threshold.",
}
_KEY_AND_VALUE = tuple[bytes | None, bytes | None]


class DeadLetterQueues:
    """Copies records to the dead-letter topics of their groups. `produce` may be set to one that
    reaches other nodes."""

    def __init__(
        self,
        config: CoordinatorConfig,
        plane: DataPlane,
        clock: Clock,
        settings: Callable[[str], ShareGroupSettings],
        counts: ShareCounts,
    ) -> None:
        self._config = config
        self._plane = plane
        self._clock = clock
        self._settings = settings
        self._counts = counts
        self._unpacking = Unpacking(plane.work)
        self._room = asyncio.Semaphore(BURIALS_AT_ONCE)
        self.produce: SendRecords = self.produce_here

    async def bury(self, share: SharePartition, letters: Sequence[DeadLetters]) -> None:
        """Copy these records. Errors are logged: there is nobody to tell. If the topic cannot be
        reached in all attempts, the rest is not tried: each range would take as long."""
        left = sum([one.last_offset - one.first_offset + 1 for one in letters])
        async with self._room:
            for one in letters:
                try:
                    async for copied in self._copy(share, one):
                        self._counts.dead_letters += copied
                        left -= copied
                except Exception as error:  # noqa: BLE001 - or the records would never end
                    self._counts.failed_dead_letter_requests += 1
                    log.warning(
                        "records cannot be copied to the dead-letter topic",
                        group=share.group_id,
                        log=share.partition.name,
                        first_offset=one.first_offset,
                        last_offset=one.last_offset,
                        reason=str(error),
                    )
                    if isinstance(error, ApiError) and error.code in _AGAIN:
                        break
        self._counts.dead_letters_lost += left

    async def _copy(self, share: SharePartition, letters: DeadLetters) -> AsyncIterator[int]:
        """Copy these records, and yield how many each request has copied."""
        settings = self._settings(share.group_id)
        topic = await self._topic(settings.dead_letter_topic)
        partition = share.partition.partition % topic.partitions
        broker = self._plane.broker_configs.config
        largest = TopicSettings(broker, topic.configs).number("max.message.bytes")
        headers = self._headers(share, letters)
        offset = letters.first_offset
        while offset <= letters.last_offset:
            last = min(offset + COPIED_AT_ONCE - 1, letters.last_offset)
            found: dict[int, _KEY_AND_VALUE] = {}
            if settings.copies_dead_letters:
                found, last = await self._read(share, offset, last)
            records = self._copies(headers, offset, last, found)
            for some in _of_size(records, largest):
                await self._append(topic, partition, plain_batch(some))
                yield len(some)
            offset = last + 1

    def _copies(
        self,
        headers: Sequence[tuple[str, bytes | None]],
        first: int,
        last: int,
        found: Mapping[int, _KEY_AND_VALUE],
    ) -> list[BatchRecord]:
        now_ms = self._clock.now().wall_ms
        copies = []
        for offset in range(first, last + 1):
            own = tuple(
                [(name, b"%d" % offset if text is None else text) for name, text in headers]
            )
            copies.append(BatchRecord(offset, now_ms, *found.get(offset, (None, None)), own))
        return copies

    async def _topic(self, name: str) -> Topic:
        """The topic, which is made if the node may do so. Raises ApiError INVALID_CONFIG, and as
        `TopicCatalogue.create`."""
        catalogue, prefix = self._plane.catalogue, self._config.dead_letter_topic_name_prefix
        if not name or name.startswith("__") or not name.startswith(prefix):
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"a dead-letter topic cannot be named {name!r}"
            )
        topic = catalogue.topic(name)
        if topic is None:
            if not self._config.dead_letter_auto_create_topics_enable:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"there is no topic {name}")
            configs = {_ENABLED: "true", "message.timestamp.type": "CreateTime"}
            try:
                topic = await catalogue.create(name, self._config.num_partitions, configs)
            except ApiError as error:
                topic = catalogue.topic(name)  # somebody else has just made it
                if topic is None:
                    raise error
        if topic.configs.get(_ENABLED) != "true":
            raise ApiError(ErrorCode.INVALID_CONFIG, f"topic {name} does not have {_ENABLED}=true")
        return topic

    def _headers(
        self, share: SharePartition, letters: DeadLetters
    ) -> Sequence[tuple[str, bytes | None]]:
        """The headers of the copies; None stands for the offset."""
        partition = share.partition
        topic = self._plane.catalogue.topic_by_id(partition.topic_id)
        name = partition.topic_id.hex() if topic is None else topic.name
        return (
            ("__dlq.errors.topic", name.encode()),
            ("__dlq.errors.partition", b"%d" % partition.partition),
            ("__dlq.errors.offset", None),
            ("__dlq.errors.group", share.group_id.encode()),
            ("__dlq.errors.delivery.count", b"%d" % letters.delivery_count),
            ("__dlq.errors.message", _WHY[letters.end]),
        )

    async def _read(
        self, share: SharePartition, first: int, last: int
    ) -> tuple[dict[int, _KEY_AND_VALUE], int]:
        """Keys and values by offset, as far as they can be read, and the last offset for which that
        was tried: not too many bytes come at once."""
        found: dict[int, _KEY_AND_VALUE] = {}
        try:
            read = await read_batches(
                share.partition,
                first,
                last,
                READ_BYTES,
                READ_UNCOMMITTED,
                self._plane.work.pace(),
                whole_first=True,
            )
            read = read.between(first, last, READ_BYTES, whole_first=True)
            for header, payload in iter_batches(read.records):
                if not header.is_control:
                    found |= await self._unpacked(header, payload, first, last)
            if read.batches:
                last = min(last, read.batches[-1][1])
        except (ApiError, LogError, CorruptBatch, UnpacksTooLarge, UnsupportedCodec) as error:
            log.warning("dead letters cannot be read", log=share.partition.name, reason=str(error))
            self._counts.dead_letters_lost += last - first + 1 - len(found)
        return found, last

    async def _unpacked(
        self, header: BatchHeader, payload: bytes, first: int, last: int
    ) -> dict[int, _KEY_AND_VALUE]:
        def steps(records: Plain) -> Steps[dict[int, _KEY_AND_VALUE]]:
            found: dict[int, _KEY_AND_VALUE] = {}
            data = records[0]
            for number, raw in enumerate(raw_records(header, records), 1):
                delta, _, at, key_size, value_size, _, value_end, _ = raw
                if first <= header.base_offset + delta <= last:
                    key = None if key_size < 0 else bytes(data[at : at + key_size])
                    value_at = value_end - max(value_size, 0)
                    value = None if value_size < 0 else bytes(data[value_at:value_end])
                    found[header.base_offset + delta] = key, value
                if number % WORK_ITEMS == 0:
                    yield
            return found

        limit = self._config.produce_unpacked_max_bytes
        return await self._unpacking.run(header, payload, limit, steps)

    async def _append(self, topic: Topic, partition: int, batch: bytes) -> None:
        """Append a batch, in several attempts if need be. Raises ApiError, LogError."""
        entry = ProduceTopic(topic.name, NO_TOPIC_ID, (ProducePartition(partition, batch),))
        request, pause_ms = ProduceRequest((entry,)), FIRST_PAUSE_MS
        for attempt in range(1, ATTEMPTS + 1):
            self._counts.dead_letter_requests += 1
            try:
                reply = await self.produce(topic, partition, request)
                result = reply.topics[0].partitions[0]
                if result.error is ErrorCode.NONE:
                    return
                raise ApiError(result.error, result.error_message)
            except ApiError as error:
                if error.code not in _AGAIN or attempt == ATTEMPTS:
                    raise
            await pause(self._clock, pause_ms)
            pause_ms = min(2 * pause_ms, LAST_PAUSE_MS)

    async def produce_here(
        self, topic: Topic, partition: int, request: ProduceRequest
    ) -> ProduceReply:
        """A `SendRecords` for partitions that this node leads."""
        reply = await self._plane.produce.handle(RequestContext(NO_TOKEN, PRODUCE_VERSION), request)
        assert reply is not None
        return reply


_ENABLED = "errors.deadletterqueue.group.enable"


def _of_size(records: Iterable[BatchRecord], largest: int) -> Iterable[list[BatchRecord]]:
    """The records in lists that make batches of at most `largest` bytes. A record that is too large
    is alone, without key and value: as in Kafka its headers are kept."""
    some: list[BatchRecord] = []
    size = RECORD_OVERHEAD_BYTES
    for record in records:
        own = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        own += sum([len(name) + len(value or b"") + 10 for name, value in record.headers])
        if some and size + own > largest:
            yield some
            some, size = [], RECORD_OVERHEAD_BYTES
        if own > largest and len(plain_batch([record])) > largest:
            record = record._replace(key=None, value=None)
        some.append(record._replace(offset=len(some)))
        size += own
    yield some
