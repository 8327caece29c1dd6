"""Operations on topics and their records. Records are read as a consumer with the chosen isolation
level would get them.

`read_committed` gives no records of aborted transactions, and nothing from the first open
transaction on (KIP-98); `read_uncommitted` gives everything that is durable. Transaction markers do
not count as records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from groupd.coordinator.faults.errors import HarnessError, check_code
from groupd.coordinator.suggest import did_you_mean
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from groupd.protocol.records.batch import Batch, iter_batches
from groupd.testing.engine import Engine
from groupd.testing.explain import broker_overview, find_topic, topic_names
from groupd.testing.records import RecordLike, TestRecord, decode, encode, placed
from groupd.testing.watch import TIMEOUT_S

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATIONS = (READ_COMMITTED, READ_UNCOMMITTED)
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
"""Kafka's names of the isolation levels."""

READ_BYTES = 256 << 10
CREATE_TOPICS_VERSION = 7
DELETE_TOPICS_VERSION = 6
PRODUCE_VERSION = 9


class PartitionReader:
    """Reads one partition from `offset` on; `offset` None = from its start. Every call continues
    where the previous one ended. `changed` is set whenever there may be more to read, until
    `close`."""

    def __init__(
        self,
        engine: Engine,
        topic: Topic,
        partition: int,
        isolation: Isolation,
        offset: int | None = None,
        changed: asyncio.Event | None = None,
    ) -> None:
        self._engine = engine
        self._topic = topic
        self._partition = partition
        self._committed = isolation == READ_COMMITTED
        self._offset = 0 if offset is None else offset
        self._changed = changed
        self._log: ReadableLog | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The name of the topic and the number of the partition."""
        return self._topic.name, self._partition

    async def records(self) -> list[TestRecord]:
        """The records that were added since the last call."""
        found: list[TestRecord] = []
        async for start, batch in self._batches():
            found += [r for r in decode(batch, self._partition) if r.offset >= start]
        return found

    async def count(self) -> int:
        """How many records were added since the last call. A batch without gaps is not decoded."""
        found = 0
        async for start, batch in self._batches():
            header = batch.header
            offsets = header.last_offset - header.base_offset + 1
            if header.record_count == offsets:
                found += header.last_offset + 1 - max(start, header.base_offset)
            else:
                found += sum(r.offset >= start for r in decode(batch, self._partition))
        return found

    def close(self) -> None:
        if self._log is not None and self._changed is not None:
            self._log.remove_waiter(self._changed)
        self._log = None

    async def _batches(self) -> AsyncIterator[tuple[int, Batch]]:
        """Each batch that has visible records, with the offset from which its records count."""
        log = await self._open()
        end = log.last_stable_offset if self._committed else log.high_watermark
        while self._offset < end:
            start = self._offset = max(self._offset, log.start_offset)
            payloads = await log.read(start, READ_BYTES, min_one=True)
            batches = [
                batch
                for payload in payloads
                for batch in iter_batches(payload)
                if batch.header.last_offset >= start and batch.header.base_offset < end
            ]
            if not batches:
                return
            self._offset = batches[-1].header.last_offset + 1
            aborted = log.aborted(start, self._offset) if self._committed else ()
            for batch in _visible(batches, aborted):
                yield start, batch
            await asyncio.sleep(0)  # let other tasks run

    async def _open(self) -> ReadableLog:
        if self._log is None or self._log.closed:
            self.close()
            self._log = await self._engine.readable(self._topic, self._partition)
            if self._changed is not None:
                self._log.add_waiter(self._changed)
        return self._log


def partitions_of(topic: Topic, partition: int | None) -> Sequence[int]:
    """The numbers of the wanted partitions: only `partition`, or all if it is None. Raises
    HarnessError if the topic has no such partition."""
    if partition is None:
        return range(topic.partitions)
    if not 0 <= partition < topic.partitions:
        raise HarnessError(
            f"topic {topic.name} has no partition {partition}: it has {topic.partitions}, from 0"
        )
    return [partition]


def _visible(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> Iterator[Batch]:
    """Leaves out markers and the records of aborted transactions, as consumers do: an aborted
    transaction lasts from its first offset to the next marker of its producer."""
    waiting = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
    waiting.reverse()
    aborting: set[int] = set()
    for batch in batches:
        header = batch.header
        while waiting and waiting[-1][0] <= header.last_offset:
            aborting.add(waiting.pop()[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield batch


class TopicOperations:
    """The topic operations of one engine. Errors are RequestRefused, and NotFound for a topic that
    does not exist."""

    _engine: Engine

    async def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create one topic. `config`: topic configs by Kafka's names.

        >>> groupd.create_topic("state", 6, {"cleanup.policy": "compact"})
        >>> groupd.topics()
        {'orders': 3, 'state': 6}
        """
        await self._create([NewTopic(name, partitions, 1, configs=tuple((config or {}).items()))])

    async def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create several topics: name -> partitions.

        >>> groupd.create_topics({"payments": 6, "refunds": 3})
        """
        await self._create([NewTopic(name, count, 1) for name, count in topics.items()])

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. The offsets committed for it are deleted a little later.

        >>> groupd.delete_topic("orders")
        >>> groupd.topics()
        {}
        """
        find_topic(self._engine, name)
        request = DeleteTopicsRequest(((name, NO_TOPIC_ID),))
        reply = await self._engine.ask(request, DELETE_TOPICS_VERSION)
        check_code(f"topic {name}", reply.topics[0].error, reply.topics[0].error_message)

    async def topics(self) -> dict[str, int]:
        """The number of partitions by topic name, without internal topics.

        >>> groupd.topics()
        {'orders': 3}
        """
        catalogue = self._engine.daemon.parts.data_plane.catalogue
        return {topic.name: topic.partitions for topic in catalogue.topics() if not topic.internal}

    async def produce(self, topic: str, records: Iterable[RecordLike]) -> list[TestRecord]:
        """Append records and wait until they are durable. Returns them with partition and offset.

        A record is bytes, str (UTF-8), None (a tombstone), a `TestRecord`, or a mapping with
        `value` and, if wanted, `key`, `headers`, `partition` and `timestamp_ms`. Without a
        partition it goes where Java's producer would put it.

        >>> groupd.produce("orders", ["coffee", {"value": "milk", "key": "k", "partition": 2}])
        [<TestRecord 0@0 b'coffee'>, <TestRecord 2@0 b'k'=b'milk'>]
        """
        known = find_topic(self._engine, topic)
        now_ms = self._engine.clock.now().wall_ms
        made = placed(records, known.partitions, now_ms)
        by_partition: dict[int, list[int]] = {}
        for index, record in enumerate(made):
            by_partition.setdefault(record.partition, []).append(index)
        if not made:
            return []
        parts = tuple(
            ProducePartition(partition, encode(made[index] for index in indexes))
            for partition, indexes in sorted(by_partition.items())
        )
        request = ProduceRequest((ProduceTopic(topic, known.topic_id, parts),))
        reply = await self._engine.ask(request, PRODUCE_VERSION)
        for part in reply.topics[0].partitions:
            check_code(f"{topic}-{part.partition}", part.error, part.error_message)
            for delta, index in enumerate(by_partition[part.partition]):
                made[index] = made[index].at(part.base_offset + delta)
        return made

    async def records(
        self, topic: str, partition: int | None = None, *, isolation: Isolation = READ_COMMITTED
    ) -> list[TestRecord]:
        """The records of a topic, or of one partition, from any producer, in the order of partition
        and offset. `isolation` "read_committed" leaves out what a consumer with that isolation
        level does not get: aborted and open transactions.

        >>> _ = groupd.produce("orders", ["coffee", "tea"])
        >>> [record.value for record in groupd.records("orders")]
        [b'coffee', b'tea']
        """
        await self._engine.end_transactions()
        known = find_topic(self._engine, topic)
        found: list[TestRecord] = []
        for number in partitions_of(known, partition):
            found += await PartitionReader(self._engine, known, number, isolation).records()
        return found

    async def wait_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        isolation: Isolation = READ_COMMITTED,
        timeout: float = TIMEOUT_S,
    ) -> list[TestRecord]:
        """Wait until the topic (or the partition) has at least `count` records, as `records` reads
        them. Returns all records that it has then. A topic that does not exist yet is waited for.
        `timeout` is in seconds. Raises WaitTimeout.

        >>> producer = groupd.producer()
        >>> producer.produce("orders", b"coffee")
        >>> groupd.wait_records("orders", 1)[0].value
        b'coffee'
        """
        waiting = _Waiting(self._engine, topic, partition, isolation)

        async def look(changed: asyncio.Event) -> list[TestRecord] | None:
            found = await waiting.read(changed)
            return found if len(found) >= count else None

        def explain() -> str:
            return f"{count} records in {waiting.described}\n{broker_overview(self._engine)}"

        try:
            return await self._engine.watch.until_read(look, timeout, explain)
        finally:
            waiting.close()

    async def _create(self, topics: list[NewTopic]) -> None:
        reply = await self._engine.ask(CreateTopicsRequest(tuple(topics)), CREATE_TOPICS_VERSION)
        for topic in reply.topics:
            check_code(f"topic {topic.name}", topic.error, topic.error_message)


class _Waiting:
    """Reads the records of a topic, and goes on reading when there are new ones. A topic that was
    deleted and created again is read from its start."""

    def __init__(
        self, engine: Engine, name: str, partition: int | None, isolation: Isolation
    ) -> None:
        self._engine = engine
        self._name = name
        self._partition = partition
        self._isolation = isolation
        self._topic: Topic | None = None
        self._readers: list[PartitionReader] = []
        self._found: list[list[TestRecord]] = []

    async def read(self, changed: asyncio.Event) -> list[TestRecord]:
        """All records so far, in the order of partition and offset; none while the broker
        restarts."""
        if not self._engine.running:
            return []
        topic = self._engine.daemon.parts.data_plane.catalogue.topic(self._name)
        if topic != self._topic:
            self.close()
            self._topic = topic
            numbers = [] if topic is None else partitions_of(topic, self._partition)
            self._found = [[] for _ in numbers]
            self._readers = [
                PartitionReader(self._engine, topic, number, self._isolation, changed=changed)
                for number in numbers
                if topic is not None
            ]
        for found, reader in zip(self._found, self._readers, strict=True):
            found += await reader.records()
        return [record for found in self._found for record in found]

    @property
    def described(self) -> str:
        """The topic or partition, and the records found in it, as text."""
        name = self._name if self._partition is None else f"{self._name}-{self._partition}"
        if self._topic is None:
            return f"{name}; there is no such topic{did_you_mean(name, topic_names(self._engine))}"
        last = [found[-1] for found in self._found if found]
        newest = f", the last ones: {', '.join(map(str, last))}" if last else ""
        return f"{name}; it has {sum(map(len, self._found))} ({self._isolation}){newest}"

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
