"""Reads a topic from its beginning to its end, whatever happens to the brokers meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.process import WaitTimeout, wait_until

REQUEST_S = 10.0
RESTARTING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE)

Values = dict[int, list[int]]
"""The records of each partition in the order of their offsets, as numbers."""


class Reader:
    """Reads a topic from its beginning, on and on, across restarts of the daemon."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        self.values: Values = {part: [] for part in range(partitions)}
        self._topic = topic
        self._config = {
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
        self._statistics: list[dict[str, Any]] = []
        self._abandoned: list[Consumer] = []
        self._begin([TopicPartition(topic, part, 0) for part in range(partitions)])

    def _begin(self, places: Sequence[TopicPartition]) -> None:
        self._statistics.clear()
        self._consumer = Consumer(self._config)
        self._consumer.assign(list(places))

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
        """Everything up to the ends of now. If the client has stopped to ask for some partitions, a
        new one reads the rest."""
        ends = self.ends()
        try:
            self._read_up_to(ends, timeout_s)
        except WaitTimeout:
            silent = self.silent(self._behind(ends))
            if not silent:
                raise
            print(f"librdkafka asks for {silent} no more:\n{self.where()}", file=sys.stderr)
            places = self._places()
            # It is not closed: a client that hangs may not return from that.
            self._abandoned.append(self._consumer)
            self._begin([TopicPartition(self._topic, *place) for place in places.items()])
            self._read_up_to(ends, timeout_s)
        return self.values

    def _read_up_to(self, ends: dict[int, int], timeout_s: float) -> None:
        def at_the_ends() -> bool:
            self.read()
            return not self._behind(ends)

        wait_until(at_the_ends, timeout_s, f"the ends {ends}", self.where)

    def _places(self) -> dict[int, int]:
        """The offset of the next record, by partition."""
        places = self._consumer.position(self._consumer.assignment())
        return {place.partition: max(place.offset, 0) for place in places}

    def _behind(self, ends: dict[int, int]) -> list[int]:
        places = self._places()
        return [part for part, end in ends.items() if places[part] < end]

    def _take_statistics(self, text: str) -> None:
        self._statistics = [*self._statistics[-1:], json.loads(text)]

    def silent(self, partitions: Sequence[int]) -> list[int]:
        """Those of `partitions` that the client does not fetch, although it was told so. It must
        have had more time than any of its requests may take (`socket.timeout.ms`, 60 s): then
        nobody owes it an answer, and it asks nobody."""
        asked = [
            sum(
                broker["req"].get(name, 0)
                for broker in one["brokers"].values()
                for name in ("OffsetForLeaderEpoch", "ListOffsets")
            )
            for one in self._statistics
        ]
        if len(asked) < 2 or asked[0] != asked[1]:
            return []
        known = self._partitions()
        return [part for part in partitions if known[part]["fetch_state"] != "active"]

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
