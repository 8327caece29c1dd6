"""Started brokers: one of a kind at a time, shared by the scenarios with the same settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tests.scenarios.runner.backend import Backend
from tests.scenarios.runner.core_backend import CoreBackend
from tests.scenarios.runner.tcp_backend import TcpBackend
from tests.support.daemon import Daemon
from tests.support.kafka_broker import KafkaBroker
from tests.support.wire_client import NoReply, WireClient

KINDS = ("core", "tcp", "kafka")
DEFAULTS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "consumer_target_linger_ms": "0",
    "group.initial.rebalance.delay.ms": "300",
    "auto.create.topics.enable": "false",
}
"""Settings below those of every scenario: no waiting where a scenario is not about waiting."""
KAFKA_SETTLE_S = 0.3
WARM_UP_S = 120.0
WARM_UP_PAUSE_S = 0.1
WARM_UP_GROUPS = 20
"""Enough groups to have one in every partition of the offsets topic."""


class Brokers:
    """Makes backends; starts brokers when they are first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[tuple[str, frozenset[tuple[str, str]]], Daemon | KafkaBroker] = {}

    def backend(self, kind: str, settings: Mapping[str, str]) -> Backend:
        """A fresh backend: nothing of other scenarios is visible in it."""
        merged = {**DEFAULTS, **settings}
        if kind == "core":
            return CoreBackend(merged)
        broker = self._broker(kind, merged)
        settle_s = KAFKA_SETTLE_S if kind == "kafka" else 0.0
        return TcpBackend(kind, broker.host, broker.port, settle_s)

    def _broker(self, kind: str, settings: Mapping[str, str]) -> Daemon | KafkaBroker:
        key = (kind, frozenset(settings.items()))
        if key not in self._started:
            self._stop(kind)
            directory = self._directory / f"{kind}-{len(self._started)}"
            broker: Daemon | KafkaBroker
            if kind == "kafka":
                broker = KafkaBroker(directory, settings=settings)
            else:
                broker = Daemon(directory, settings=settings)
            try:
                broker.start()
                warm_up(broker)
            except BaseException:
                # The next scenario may not have it: it would meet coordinators that load.
                broker.close()
                raise
            self._started[key] = broker
        return self._started[key]

    def _stop(self, kind: str) -> None:
        """Stops the brokers of a kind: only one runs at a time, as a real broker takes much
        memory."""
        for key in [key for key in self._started if key[0] == kind]:
            self._started.pop(key).close()

    def close(self) -> None:
        for broker in self._started.values():
            broker.close()
        self._started.clear()


def warm_up(broker: Daemon | KafkaBroker, timeout_s: float = WARM_UP_S) -> None:
    """Waits until the coordinators answer: a real broker creates their topics on demand and loads
    partitions one by one. Raises AssertionError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    answered = 0
    while answered < WARM_UP_GROUPS:
        assert time.monotonic() < deadline, "the broker's coordinators do not become ready"
        try:
            with WireClient(broker.host, broker.port) as client:
                while answered < WARM_UP_GROUPS and _serves(client, f"warm-up-{answered}"):
                    answered += 1
        except (OSError, NoReply):
            pass  # a broker on a busy machine that has just started
        if answered < WARM_UP_GROUPS:
            time.sleep(WARM_UP_PAUSE_S)


def _serves(client: WireClient, group: str) -> bool:
    """Whether the group and the transactional id of that name have coordinators that serve."""
    found = client.call("FindCoordinator", 4, coordinator_keys=[group], key_type=0)
    fetched = client.call("OffsetFetch", 8, groups=[{"group_id": group, "topics": None}])
    errors = [found["coordinators"][0]["error_code"], fetched["groups"][0]["error_code"]]
    return not any(errors) and not _warm_up_transactions(client, group)


def _warm_up_transactions(client: WireClient, name: str) -> int:
    found = client.call("FindCoordinator", 4, coordinator_keys=[name], key_type=1)
    producer = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": 60_000}
    given = client.call("InitProducerId", 4, transactional_id=name, **producer)
    code: int = found["coordinators"][0]["error_code"] or given["error_code"]
    return code
