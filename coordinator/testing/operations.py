"""What a test can do with its broker: the whole public surface, as coroutines.

`GroupCoordinator` has every one of these as a plain method and, under `aio`, as a coroutine for any
loop. They run on the broker's loop; arguments and results are plain data, so that the same calls go
to another process or over HTTP. Waits take their timeout in seconds of real time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.core.inspection.group import list_group_summaries
from coordinator.runtime.shard_state import ShardState
from coordinator.testing.engine import Engine
from coordinator.testing.errors import HarnessError, InvariantViolation, NotFound, RequestRefused
from coordinator.testing.fault_operations import FaultOperations
from coordinator.testing.recipes import Recipes
from coordinator.testing.records import RecordLike, TestRecord, decode, encode, placed
from coordinator.testing.report import GROUPS_MAX, timeline_text
from coordinator.testing.waits import Waits
from protocol.errors import ErrorCode
from protocol.messages import NO_TOPIC_ID
from protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from protocol.messages.offsets import CommitPartition, CommitTopic, OffsetCommitRequest
from protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from protocol.records.batch import parse_header

Places = Mapping[tuple[str, int], int] | Mapping[str, Mapping[int, int]]
"""Offsets: {("orders", 0): 5} or {"orders": {0: 5}}."""

CREATE_TOPICS_VERSION = 7
DELETE_TOPICS_VERSION = 6
PRODUCE_VERSION = 9
OFFSET_COMMIT_VERSION = 9
READ_BYTES = 4 << 20


class Operations(Waits, FaultOperations, Recipes):
    """On one engine; errors are RequestRefused unless said otherwise."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)

    # Topics and records

    async def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create one topic, with topic configs by Kafka's names."""
        await self._create([NewTopic(name, partitions, 1, configs=tuple((config or {}).items()))])

    async def create_topics(self, topics: Mapping[str, int]) -> None:
        """{"orders": 6, "payments": 3}."""
        await self._create([NewTopic(name, count, 1) for name, count in topics.items()])

    async def delete_topic(self, name: str) -> None:
        """The topic, its records, and in time the offsets committed for it."""
        request = DeleteTopicsRequest(((name, NO_TOPIC_ID),))
        reply = await self._engine.ask(request, DELETE_TOPICS_VERSION)
        _check(f"topic {name}", reply.topics[0].error, reply.topics[0].error_message)

    async def topics(self) -> dict[str, int]:
        """Name -> partitions, without internal topics."""
        catalogue = self._engine.daemon.data_plane.catalogue
        return {topic.name: topic.partitions for topic in catalogue.topics() if not topic.internal}

    async def produce(self, topic: str, records: Iterable[RecordLike]) -> list[TestRecord]:
        """Append records and wait until they are durable; they come back with partition and
        offset. See `coordinator.testing.records` for what a record may be."""
        known = self._engine.daemon.data_plane.catalogue.topic(topic)
        if known is None:
            raise NotFound(f"no topic {topic}: create it first")
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
            _check(f"{topic}-{part.partition}", part.error, part.error_message)
            for delta, index in enumerate(by_partition[part.partition]):
                made[index] = made[index].at(part.base_offset + delta)
        return made

    async def records(self, topic: str, partition: int | None = None) -> list[TestRecord]:
        """What is in a topic, decoded, by partition and offset; `partition` None = all."""
        plane = self._engine.daemon.data_plane
        known = plane.catalogue.topic(topic)
        if known is None:
            raise NotFound(f"no topic {topic}")
        wanted = range(known.partitions) if partition is None else [partition]
        found: list[TestRecord] = []
        for number in wanted:
            if not 0 <= number < known.partitions:
                raise HarnessError(f"no partition {number}: {topic} has {known.partitions}")
            log = await self._engine.readable(known, number)
            start = offset = log.start_offset
            while offset < log.high_watermark:
                payloads = await log.read(offset, READ_BYTES, min_one=True)
                if not payloads:
                    break
                batch = [record for payload in payloads for record in decode(payload, number)]
                found += [record for record in batch if record.offset >= start]
                offset = parse_header(payloads[-1]).next_offset
        return found

    # Groups and offsets

    async def commit(self, group: str, offsets: Places) -> None:
        """Set offsets from outside: refused (UNKNOWN_MEMBER_ID) while the group has members."""
        by_topic: dict[str, list[CommitPartition]] = {}
        for (topic, partition), offset in _flat(offsets).items():
            by_topic.setdefault(topic, []).append(CommitPartition(partition, offset))
        topics = tuple(CommitTopic(name, tuple(parts)) for name, parts in by_topic.items())
        request = OffsetCommitRequest(group, topics)
        reply = await self._engine.ask(request, OFFSET_COMMIT_VERSION)
        for topic in reply.topics:
            for part in topic.partitions:
                _check(f"offset of {topic.name}-{part.partition}", part.error, None)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The durable offsets of a group by (topic, partition)."""
        return {
            (topic, partition): value.offset
            for (of, topic, partition), value in sorted(self._engine.offsets.items())
            if of == group
        }

    async def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Records not yet committed, by (topic, partition): of all partitions of the topics that
        the group has committed to or its members own something of."""
        committed = await self.committed(group)
        shown = await self.describe(group)
        topics = {topic for topic, _ in committed}
        for member in shown["members"] if shown else ():
            topics |= set(member["owned"])
        plane = self._engine.daemon.data_plane
        found = {}
        for topic in sorted(topics):
            known = plane.catalogue.topic(topic)
            for partition in range(known.partitions if known is not None else 0):
                assert known is not None
                log = await self._engine.readable(known, partition)
                position = committed.get((topic, partition), log.start_offset)
                found[topic, partition] = max(0, log.high_watermark - position)
        return found

    async def groups(self) -> list[dict[str, Any]]:
        """`group_id`, `type` and `state` of every group, by id."""
        found = [
            summary
            for shard in self._engine.broker.shards
            if shard.state is ShardState.ACTIVE
            for summary in list_group_summaries(shard.shard.state)
        ]
        return sorted(found, key=lambda summary: str(summary["group_id"]))

    async def describe(self, group: str) -> dict[str, Any] | None:
        """A group as `/groups/{id}` of the admin port shows it; None when there is none."""
        return self._engine.describe(group)

    async def events(self, group: str) -> list[dict[str, Any]]:
        """The last hundred events of a group, oldest first (docs/operating.md)."""
        return self._engine.events(group)

    async def rebalances(self, group: str) -> int:
        """How many there were: target assignments of a consumer group, completed generations of
        a classic one."""
        return self._engine.rebalances[group]

    async def report(self) -> str:
        """The latest events of the groups that were active last, as text."""
        groups = list(self._engine.seen)[-GROUPS_MAX:]
        return "\n".join(
            f"group {group}:\n{timeline_text(self._engine.events(group))}" for group in groups
        )

    # Invariants

    async def check(self) -> None:
        """Raises InvariantViolation if the coordinator broke one of its promises so far."""
        violations = self._engine.invariants.violations
        if violations:
            raise InvariantViolation("\n\n".join(violations))

    # Time and life

    async def advance(self, ms: int, *, keep_connected: bool = True) -> int:
        """Let `ms` pass: timers fire in order, each at its time, and all their effects are durable
        and answered on return. The number of timers that fired.

        Members whose connection is open count as heartbeating all the while. With
        `keep_connected=False` nobody does: every session that ends in that time ends.
        """
        return await self._engine.advance(ms, keep_connected=keep_connected)

    async def set_clock(self, mode: str | float) -> None:
        """ "real", "frozen", or a factor: from now on time runs like that."""
        self._engine.clock.set_mode(mode)

    async def clock_factor(self) -> float:
        """How fast time runs: 0 = frozen, 1 = real."""
        return self._engine.clock.factor

    async def now(self) -> tuple[int, int]:
        """(monotonic ms, wall ms) of the coordinator."""
        now = self._engine.clock.now()
        return now.monotonic_ms, now.wall_ms

    async def settle(self) -> None:
        """Until what has come in so far is durable and answered."""
        await self._engine.settle()

    async def restart(self, *, lose_memory: bool = False) -> None:
        """Stop in good order and start again on the same port; with `lose_memory` with empty logs
        and no topics."""
        await self._engine.restart(lose_memory=lose_memory)

    async def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Kafka and admin address; port 0 = there is none."""
        return self._engine.kafka, self._engine.daemon.admin_address

    async def _create(self, topics: list[NewTopic]) -> None:
        reply = await self._engine.ask(CreateTopicsRequest(tuple(topics)), CREATE_TOPICS_VERSION)
        for topic in reply.topics:
            _check(f"topic {topic.name}", topic.error, topic.error_message)


def _flat(offsets: Places) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for key, value in offsets.items():
        if isinstance(key, str) and isinstance(value, Mapping):
            found.update({(key, int(partition)): offset for partition, offset in value.items()})
        elif isinstance(key, tuple) and isinstance(value, int):
            found[key] = value
        else:
            raise HarnessError('offsets are {("orders", 0): 5} or {"orders": {0: 5}}')
    return found


def _check(what: str, code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.NONE:
        raise RequestRefused(f"{code.name}: {what}" + (f": {message}" if message else ""))
