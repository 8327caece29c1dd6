"""Reads a topic from its beginning to its end, whatever happens to the brokers meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.process import wait_until

REQUEST_S = 10.0
RESTARTING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE)

Values = dict[int, list[int]]
"""The records of each partition in the order of their offsets, as numbers."""

Told = Mapping[int, Mapping[str, Any]]
"""What a client's statistics say of each partition."""


def left_behind(before: Told, now: Told) -> list[int]:
    """The partitions that librdkafka goes on fetching from a broker of which it knows that another
    one leads them: its fault (docs/clients.md). It does so for a moment whenever a leader changes;
    here both statistics, seconds apart, have the same two brokers and the same offset."""
    facts = "leader", "broker", "next_offset"
    return [
        number
        for number, part in now.items()
        if part["leader"] >= 0 <= part["broker"] != part["leader"]
        and number in before
        and all(before[number][fact] == part[fact] for fact in facts)
    ]


class Reader:
    """Reads a topic from its beginning, on and on, across restarts of the daemon. A client that
    stays with the wrong broker gives way to another one."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        self.values: Values = {part: [] for part in range(partitions)}
        self._bootstrap, self._topic, self._isolation = bootstrap, topic, isolation
        self._statistics: list[dict[str, Any]] = []
        self._left_behind: list[int] = []
        self._consumer = self._begin(dict.fromkeys(self.values, 0))

    def _begin(self, places: Mapping[int, int]) -> Consumer:
        """A client that begins at these offsets."""
        self._statistics, self._left_behind = [], []
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reader",
                "isolation.level": self._isolation,
                "enable.auto.commit": False,
                "metadata.recovery.strategy": "none",  # see docs/clients.md
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "statistics.interval.ms": 5000,
                "stats_cb": self._take_statistics,
            }
        )
        consumer.assign([TopicPartition(self._topic, part, at) for part, at in places.items()])
        return consumer

    def _places(self) -> dict[int, int]:
        """The next offset of each partition; 0 or less of one of which nothing was read."""
        places = self._consumer.position(self._consumer.assignment())
        return {place.partition: place.offset for place in places}

    def _begin_anew(self) -> None:
        print(f"{self._left_behind} are left behind; another client goes on", file=sys.stderr)
        print(self.where(), file=sys.stderr)
        places = {part: max(0, at) for part, at in self._places().items()}
        self._consumer.close()
        self._consumer = self._begin(places)

    def read(self, timeout_s: float = 0.2) -> int:
        """Reads what comes within the time; how many records there are by now."""
        if self._left_behind:
            self._begin_anew()
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
            at = self._places()
            return all(end == 0 or at[part] >= end for part, end in ends.items())

        wait_until(at_the_ends, timeout_s, f"the ends {ends}", self.where)
        return self.values

    def _take_statistics(self, text: str) -> None:
        # Two, to see which requests are sent meanwhile.
        self._statistics = [*self._statistics[-1:], json.loads(text)]
        if len(self._statistics) == 2:
            self._left_behind = left_behind(*map(self._partitions, self._statistics))

    def _partitions(self, statistics: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        known = statistics["topics"].get(self._topic, {}).get("partitions", {})
        return {int(number): part for number, part in known.items() if int(number) in self.values}

    def where(self) -> str:
        """Where the client stands, as it says itself: what it waits for when it does not go on."""
        parts = [
            f"{number}: {part['fetch_state']}, leader {part['leader']} ({part['broker']}) at epoch "
            f"{part['leader_epoch']}, read {len(self.values[number])}, next "
            f"{part['next_offset']}, end {part['hi_offset']}, stable {part['ls_offset']}"
            for last in self._statistics[-1:]
            for number, part in self._partitions(last).items()
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
