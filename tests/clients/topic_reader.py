"""Reads a topic from its beginning to its end, whatever happens to the brokers meanwhile."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.process import wait_until

REQUEST_S = 10.0
RESTARTING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE)

Values = dict[int, list[int]]
"""The records of each partition in the order of their offsets, as numbers."""


class Reader:
    """Reads a topic from its beginning, on and on, across restarts of the daemon."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        self.values: Values = {part: [] for part in range(partitions)}
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "metadata.recovery.strategy": "none",  # see docs/clients.md
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "statistics.interval.ms": 5000,
                "stats_cb": self._take_statistics,
            }
        )
        self._statistics: list[dict[str, Any]] = []
        self._consumer.assign([TopicPartition(topic, part, 0) for part in range(partitions)])

    def read(self, timeout_s: float = 0.2) -> int:
        """Reads what comes within the time; how many records there are by now."""
        for message in self._consumer.consume(500, timeout_s):
            error = message.error()
            if error is None:
                self.values[message.partition()].append(int(message.value()))
            else:
                assert error.retriable() or error.code() in RESTARTING, error
        return sum(map(len, self.values.values()))

    def ends(self) -> dict[int, int]:
        """The ends of the partitions, as this isolation level is told them. Raises
        KafkaException."""
        return {
            part: self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, part), REQUEST_S
            )[1]
            for part in self.values
        }

    def read_to_the_end(self, timeout_s: float) -> Values:
        """Everything up to the ends of now."""
        ends = self.ends()

        def at_the_ends() -> bool:
            self.read()
            places = self._consumer.position(self._consumer.assignment())
            at = {place.partition: place.offset for place in places}
            return all(end == 0 or at[part] >= end for part, end in ends.items())

        wait_until(at_the_ends, timeout_s, f"the ends {ends}", self.where)
        return self.values

    def _take_statistics(self, text: str) -> None:
        # Two, to see which requests are sent meanwhile.
        self._statistics = [*self._statistics[-1:], json.loads(text)]

    def _partitions(self) -> dict[int, dict[str, Any]]:
        topics = self._statistics[-1]["topics"] if self._statistics else {}
        known = topics.get(self._topic, {}).get("partitions", {})
        return {int(number): part for number, part in known.items() if int(number) in self.values}

    def where(self) -> str:
        """Where the client stands, as it says itself: what it waits for when it does not go on."""
        parts = [
            f"{number}: {part['fetch_state']}, leader {part['leader']} ({part['broker']}) at epoch "
            f"{part['leader_epoch']}, read {len(self.values[number])}, next "
            f"{part['next_offset']}, end {part['hi_offset']}, stable {part['ls_offset']}"
            for number, part in self._partitions().items()
        ]
        brokers = [
            f"{name}: {broker['state']} for {broker['stateage'] / 1e6:.1f} s, "
            f"{broker['waitresp_cnt']} requests without an answer, {broker['outbuf_cnt']} to send; "
            f"in all { ({kind: count for kind, count in broker['req'].items() if count}) }"
            for one in self._statistics
            for name, broker in one["brokers"].items()
        ]
        return "\n".join([f"topic {self._topic}", *parts, *brokers])

    def close(self) -> None:
        self._consumer.close()
