"""Real consumers of librdkafka: two of a classic group with sessions of 6 s, two of a KIP-848
group. `python -m tests.attack.readers BOOTSTRAP` answers lines of its standard input: "begin" and
"end" (or "end at once"), whose answer is the members that lost their partitions in between."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.attack.honest_clients import SESSION_MS, TOPIC

NICENESS = -10
READY_S = 60.0
LATEST_S = 1.0
"""How long to poll at the end. Heartbeats come every second, so each member learns its fate."""
PROTOCOLS = {
    "classic": {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 1000},
    "consumer": {"group.protocol": "consumer"},
}


class Member:
    def __init__(self, bootstrap: str, protocol: str, number: int) -> None:
        self.name = f"librdkafka {protocol} {number}"
        self.assigned = False
        self.lost: list[str] = []
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"readers-{protocol}",
            "log_level": 0,
            "auto.offset.reset": "latest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 500,
            **PROTOCOLS[protocol],
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [TOPIC], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _on_assign(self, _: Consumer, partitions: list[object]) -> None:
        self.assigned = bool(partitions) or self.assigned

    def _on_revoke(self, *_: object) -> None:
        """Does nothing: a rebalance revokes partitions without fencing anybody."""

    def _on_lost(self, *_: object) -> None:
        self.lost.append("lost its partitions")

    def poll(self) -> None:
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and error.code() in (
            KafkaError.FENCED_INSTANCE_ID,
            KafkaError._MAX_POLL_EXCEEDED,
            KafkaError.UNKNOWN_MEMBER_ID,
        ):
            self.lost.append(error.name())

    def close(self) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.close()


def main() -> None:
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    members = [Member(sys.argv[1], protocol, n) for protocol in PROTOCOLS for n in (1, 2)]
    deadline = time.monotonic() + READY_S
    while not all(member.assigned for member in members) and time.monotonic() < deadline:
        _poll(members)
    print("ready" if all(member.assigned for member in members) else "not ready", flush=True)
    while line := _next_line(members):
        if line == "begin":
            for member in members:
                member.lost = []
            print("begun", flush=True)
        else:
            ended = time.monotonic()
            latest_s = LATEST_S if line == "end" else 0.0
            while time.monotonic() - ended < latest_s:
                _poll(members)
            lost = [[member.name, why] for member in members for why in member.lost]
            print(json.dumps(lost), flush=True)
    # Leaving takes its time, and nobody looks any more.
    os._exit(0)


def _poll(members: list[Member]) -> None:
    for member in members:
        member.poll()
    time.sleep(0.02)


def _next_line(members: list[Member]) -> str:
    while not select.select([sys.stdin], [], [], 0)[0]:
        _poll(members)
    return sys.stdin.readline().strip()


if __name__ == "__main__":
    main()
