"""A log that real clients made: both protocols, a static member, tools, transactions, expiry,
deletions; and what OffsetFetch answered three times while it grew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupd.coordinator.cli.kafka.calls import delete_offsets, fetch, fetch_offsets
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.history.stream import split
from groupd.testing.harness import GroupCoordinator
from tests.pipeline.random_log import Answer, Instant
from tests.support.admin import QUIET
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.unit.logtools.harness import PARTITIONS

WAIT_S = 30.0
READ_BYTES = 1 << 20
DAY_MS = 86_400_000
CHECK_MS = 3_600_000
GROUPS = ("workers", "modern", "tool", "short", "gone", "pipeline", "hanging")
Offsets = Mapping[tuple[str, int], int]


def places(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]


class Story:
    """What is done to a broker, and what it answered."""

    def __init__(self, broker: GroupCoordinator, stack: ExitStack) -> None:
        self.broker, self._stack = broker, stack
        self.bootstrap = broker.bootstrap_servers
        self.cluster = stack.enter_context(KafkaCluster([(broker.host, broker.port)]))
        self.wire = stack.enter_context(WireClient(broker.host, broker.port))
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.instants: list[Instant] = []

    def tick(self, ms: int = 1000) -> None:
        self.broker.clock.advance(ms)

    def member(self, group: str, topics: list[str], partitions: int, **settings: Any) -> Consumer:
        """A consumer that has got `partitions` assigned. Closed at the end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "client.id": f"client-{group}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **QUIET,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._stack.callback(consumer.close)
        consumer.subscribe(topics)

        def assigned() -> bool:
            consumer.poll(0.05)
            return len(consumer.assignment()) == partitions

        wait_until(assigned, WAIT_S, f"the assignment of {group}")
        return consumer

    def commit(self, consumer: Consumer, offsets: Offsets) -> None:
        consumer.commit(offsets=places(offsets), asynchronous=False)
        self.tick()

    def tool(self, group: str, offsets: Offsets) -> None:
        """An operator's commit, without membership."""
        found = self.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places(offsets))]
        )
        found[group].result(WAIT_S)
        self.tick()

    def short_lived(self, group: str, offsets: Offsets, retention_ms: int) -> None:
        """Commits as clients before Kafka 2.1 did: with a retention time of its own."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": part,
                        "committed_offset": offset,
                        "committed_metadata": "old",
                    }
                ],
            }
            for (topic, part), offset in offsets.items()
        ]
        reply = self.wire.call(
            "OffsetCommit",
            3,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=retention_ms,
            topics=topics,
        )
        errors = [part["error_code"] for topic in reply["topics"] for part in topic["partitions"]]
        assert errors == [0] * len(offsets)
        self.tick()

    def transaction(self, consumer: Consumer, name: str, offsets: Offsets) -> Producer:
        """Puts offsets into a transaction that is still open."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": name, "log_level": 0}
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(places(offsets), metadata, WAIT_S)
        self.tick()
        return producer

    def end(self, producer: Producer, *, commit: bool) -> None:
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        self.tick()

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        coordinator = self.cluster.coordinator(group)
        assert delete_offsets(coordinator, group, [(topic, partition)]) == {(topic, partition): 0}
        self.tick()

    def delete_group(self, group: str) -> None:
        for future in self.admin.delete_consumer_groups([group]).values():
            future.result(WAIT_S)
        self.tick()

    def remember(self) -> None:
        """Notes what groupd's own client and librdkafka's are answered now."""
        self.tick()
        instant = Instant(self.broker.clock.now_ms, {})
        for group in GROUPS:
            found = fetch_offsets(self.cluster.coordinator(group), group)
            instant.answer.update(
                {
                    (group, *place): (at.offset, at.leader_epoch, at.metadata)
                    for place, at in found.items()
                }
            )
            asked = ConsumerGroupTopicPartitions(group)
            future = self.admin.list_consumer_group_offsets([asked])[group]
            assert {
                (at.topic, at.partition): at.offset
                for at in future.result(WAIT_S).topic_partitions or ()
            } == {place: at.offset for place, at in found.items()}
        instant.pending = self._pending(instant.answer)
        self.instants.append(instant)
        self.tick()

    def _pending(self, answer: Answer) -> set[tuple[str, str, int]]:
        pending = set()
        for group, topic, partition in answer:
            asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
            future = self.admin.list_consumer_group_offsets([asked], require_stable=True)[group]
            (place,) = future.result(WAIT_S).topic_partitions
            if place.error is not None:
                pending.add((group, topic, partition))
        return pending

    def log(self) -> dict[int, list[bytes]]:
        """The whole of `__consumer_offsets` as a reader of uncommitted records gets it."""
        found: dict[int, list[bytes]] = {}
        for partition in range(PARTITIONS):
            leader = self.cluster.leader(OFFSETS_TOPIC, partition)
            at = (OFFSETS_TOPIC, partition)
            end = self.cluster.bounds([at])[at][1]
            offset = 0
            batches = found.setdefault(partition, [])
            while offset < end:
                data = fetch(leader, OFFSETS_TOPIC, partition, offset, READ_BYTES)
                batches += list(split(data, whole=False))
                offset = _next_offset(batches[-1])
        return found


def _next_offset(batch: bytes) -> int:
    return int.from_bytes(batch[:8]) + int.from_bytes(batch[23:27]) + 1


@contextmanager
def told() -> Iterator[Story]:
    with (
        GroupCoordinator.start(
            topics={"orders": 3, "refunds": 2},
            config={
                "offsets.retention.minutes": 3 * DAY_MS // 60_000,
                "offsets.retention.check.interval.ms": CHECK_MS,
                "offsets.topic.num.partitions": PARTITIONS,
            },
            clock="frozen",
        ) as broker,
        ExitStack() as stack,
    ):
        story = Story(broker, stack)
        tell(story)
        yield story


def tell(story: Story) -> None:
    """Tells the story in three parts, and notes the answers after each."""
    both = ["orders", "refunds"]
    classic = story.member("workers", both, 5, group_protocol="classic")
    modern = story.member(
        "modern", ["orders"], 3, group_protocol="consumer", group_instance_id="machine-1"
    )
    story.commit(classic, {("orders", 0): 10, ("orders", 1): 5, ("refunds", 0): 1})
    story.commit(modern, {("orders", 0): 3, ("orders", 2): 8})
    story.commit(classic, {("orders", 0): 25, ("refunds", 0): 1})
    story.tool("tool", {("orders", 0): 100, ("refunds", 1): 7})
    story.tool("gone", {("orders", 1): 1})
    eos = story.member("pipeline", ["orders"], 3, group_protocol="classic")
    first = story.transaction(eos, "tx-1", {("orders", 0): 40, ("orders", 1): 41})
    story.end(first, commit=True)
    story.end(story.transaction(eos, "tx-2", {("orders", 0): 60}), commit=False)
    story.remember()

    # Overtaken by a plain commit at 0; a tombstone takes what is pending at 1.
    overtaken = story.transaction(eos, "tx-3", {("orders", 0): 70, ("orders", 2): 72})
    story.commit(eos, {("orders", 0): 55})
    story.delete_offset("tool", "refunds", 1)
    story.short_lived("short", {("orders", 0): 9}, 60_000)
    story.commit(modern, {("orders", 0): 2})
    story.delete_group("gone")
    story.remember()

    story.end(overtaken, commit=True)
    story.tick(DAY_MS)
    story.commit(classic, {("orders", 1): 77})
    modern.close()
    story.tick(60_000)  # a static member that is away is a member until its session ends
    story.tool("modern", {("orders", 0): 0, ("orders", 2): 500})
    story.tick(2 * DAY_MS + 2 * CHECK_MS)  # what `tool` has is three days old now
    story.broker.delete_topic("refunds")
    hanging = story.member("hanging", ["orders"], 3, group_protocol="classic")
    story.commit(hanging, {("orders", 0): 1})
    story.transaction(hanging, "tx-4", {("orders", 0): 90, ("orders", 1): 91})
    story.remember()
