"""confluent-kafka (librdkafka): classic and consumer protocol."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from groupd.testing.client_calls import leave_and_close
from tests.clients.drivers.driver import Emitter, Options, Partition, Place, main


class ConfluentMember:
    """One librdkafka consumer."""

    def __init__(self, options: Options, emitter: Emitter) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "client.id": f"confluent-{options.member}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": options.commit == "auto",
            "auto.commit.interval.ms": 500,
            "group.protocol": options.protocol,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            "metadata.recovery.strategy": "none",  # see docs/clients.md
            "log_level": 5,  # from 5 on it logs requests that timed out
            "max.poll.interval.ms": options.max_poll_interval_ms,
            **options.security("confluent-kafka"),
        }
        if options.protocol == "consumer":
            if options.assignor:
                config["group.remote.assignor"] = options.assignor
        else:
            config["partition.assignment.strategy"] = options.assignor or "range"
            config["session.timeout.ms"] = options.session_timeout_ms
            config["heartbeat.interval.ms"] = 300
        if options.instance_id:
            config["group.instance.id"] = options.instance_id
        self._consumer = Consumer(config)
        self._static = options.instance_id is not None
        self._emitter = emitter
        self._revoke_block_s = options.revoke_block_ms / 1000
        self.subscribe([options.pattern] if options.pattern else list(options.topics))

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics,
            on_assign=lambda _, parts: self._emitter.partitions("assigned", parts),
            on_revoke=self._on_revoke,
            on_lost=lambda _, parts: self._emitter.partitions("lost", parts),
        )

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        time.sleep(self._revoke_block_s)
        self._emitter.partitions("revoked", partitions)

    def poll(self, timeout_s: float) -> list[Place]:
        places: list[Place] = []
        for message in self._consumer.consume(500, timeout_s):
            error = message.error()
            if error is None:
                places.append((message.topic(), message.partition(), message.offset()))
            elif error.code() != KafkaError._PARTITION_EOF:
                self._emitter.emit("error", error=str(error))
        return places

    def commit(self, offsets: dict[Partition, int]) -> None:
        asked = [TopicPartition(*where, offset) for where, offset in offsets.items()]
        for answer in self._consumer.commit(offsets=asked, asynchronous=False) or ():
            if answer.error is not None:
                raise KafkaException(answer.error)

    def assignment(self) -> list[Partition]:
        return [(at.topic, at.partition) for at in self._consumer.assignment()]

    def close(self) -> None:
        if self._static:  # to unsubscribe would end a static member
            self._consumer.close()
        else:
            leave_and_close(self._consumer)


if __name__ == "__main__":
    main(ConfluentMember)
