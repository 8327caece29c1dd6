"""aiokafka: classic protocol only. Each member has an event loop of its own in its thread."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.clients.drivers.driver import Emitter, Options, Partition, Place, main

ASSIGNORS = {
    "": RangePartitionAssignor,
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._emitter.partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._emitter.partitions("revoked", revoked)


class AiokafkaMember:
    """One AIOKafkaConsumer; its tasks run while `poll` does, which is nearly always."""

    def __init__(self, options: Options, emitter: Emitter) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(options, emitter))

    async def _start(self, options: Options, emitter: Emitter) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            group_instance_id=options.instance_id,
            client_id=f"aiokafka-{options.member}",
            auto_offset_reset="earliest",
            enable_auto_commit=options.commit == "auto",
            auto_commit_interval_ms=500,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=(ASSIGNORS[options.assignor],),
            metadata_max_age_ms=1000,
            **options.security("aiokafka"),
        )
        listener = Listener(emitter)
        if options.pattern:
            self._consumer.subscribe(pattern=options.pattern, listener=listener)
        else:
            self._consumer.subscribe(topics=list(options.topics), listener=listener)
        await self._consumer.start()

    def poll(self, timeout_s: float) -> list[Place]:
        found = self._loop.run_until_complete(
            self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=500)
        )
        return [
            (at.topic, at.partition, record.offset) for at, got in found.items() for record in got
        ]

    def commit(self, offsets: dict[Partition, int]) -> None:
        asked = {TopicPartition(*where): offset for where, offset in offsets.items()}
        self._loop.run_until_complete(self._consumer.commit(asked))

    def assignment(self) -> list[Partition]:
        return [(at.topic, at.partition) for at in self._consumer.assignment()]

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


if __name__ == "__main__":
    main(AiokafkaMember)
