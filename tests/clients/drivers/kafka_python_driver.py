"""kafka-python: classic protocol only."""

from __future__ import annotations

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata

from tests.clients.drivers.driver import QUIET_S, Emitter, Options, Partition, Place, main

ASSIGNORS = {
    "": RangePartitionAssignor,
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._emitter.partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._emitter.partitions("revoked", revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._emitter.partitions("lost", lost)


class KafkaPythonMember:
    """One KafkaConsumer."""

    def __init__(self, options: Options, emitter: Emitter) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            group_instance_id=options.instance_id,
            client_id=f"kafka-python-{options.member}",
            auto_offset_reset="earliest",
            enable_auto_commit=options.commit == "auto",
            auto_commit_interval_ms=500,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=(ASSIGNORS[options.assignor],),
            metadata_max_age_ms=300_000,  # a refresh soon after the start makes it join again
            reconnect_backoff_max_ms=500,
            **options.security("kafka-python"),
        )
        listener = Listener(emitter)
        if options.pattern:
            self._consumer.subscribe(pattern=options.pattern, listener=listener)
        else:
            # Known topics first: a rebalance that starts within another one can hang this client
            # (its poll never returns, whichever the broker), and missing metadata causes just that.
            for topic in options.topics:
                self._consumer.partitions_for_topic(topic)
            self._consumer.subscribe(topics=list(options.topics), listener=listener)

    @property
    def joining(self) -> bool:
        """Whether it is between the revocation and the next assignment; if it hangs, for ever."""
        return bool(self._consumer._coordinator.rejoining)

    def poll(self, timeout_s: float) -> list[Place]:
        found = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=500)
        return [
            (at.topic, at.partition, record.offset) for at, got in found.items() for record in got
        ]

    def commit(self, offsets: dict[Partition, int]) -> None:
        self._consumer.commit(
            {
                TopicPartition(*where): OffsetAndMetadata(offset, "", -1)
                for where, offset in offsets.items()
            }
        )

    def assignment(self) -> list[Partition]:
        return [(at.topic, at.partition) for at in self._consumer.assignment()]

    def close(self) -> None:
        self._consumer.close(autocommit=False)


if __name__ == "__main__":
    main(KafkaPythonMember, quiet_s=QUIET_S)
