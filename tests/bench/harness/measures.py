"""One measurement of one broker each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from tests.bench.peers.embedded import Kind

TOPIC = "orders"
TOPICS = {TOPIC: 1}
"""One topic: with more, librdkafka may wait for 500 ms on its first Fetch of the others."""

TIMEOUT_S = 10.0
FRESH = Path(__file__).parent / "fresh_brokers.py"
PEER_VARIABLE = "GROUPD_BENCH_PEER"
NONE = "no broker"


class CannotDo(Exception):
    """The peer does not answer this workload; the text says what it did."""


def connect(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()


def start_ms(kind: Kind) -> float:
    """The time from asking for a broker to its first accepted connection."""
    began = time.perf_counter()
    broker = kind.start()
    try:
        connect(broker.bootstrap)
        return (time.perf_counter() - began) * 1000
    finally:
        broker.close()


def first_record_ms(kind: Kind, protocol: str) -> float:
    """The time from asking for a broker, through one produced record, to that record in a group's
    consumer. Raises CannotDo."""
    began = time.perf_counter()
    broker = kind.start()
    common: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer({**common, "linger.ms": 0})
    consumer = Consumer(
        {
            **common,
            "group.id": "billing",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **({"heartbeat.interval.ms": 50} if protocol == "classic" else {}),
        }
    )
    try:
        producer.produce(TOPIC, b"x", partition=0)
        if producer.flush(TIMEOUT_S):
            raise CannotDo("does not take a record")
        consumer.subscribe([TOPIC])
        while time.perf_counter() - began < TIMEOUT_S:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is None:
                return (time.perf_counter() - began) * 1000
            if message.error().fatal():
                raise CannotDo(str(message.error()))
        raise CannotDo(f"no record within {TIMEOUT_S:.0f} s")
    finally:
        consumer.close()
        broker.close()


def memory_mb(name: str) -> float:
    """The MB of one broker: see `tests.bench.harness.memory`."""
    command = [sys.executable, "-m", "tests.bench.harness.memory", name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def pytest_s(name: str, tests: int) -> float:
    """The time of a whole run of pytest with so many tests, each of which has a fresh broker."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    environment = {**os.environ, PEER_VARIABLE: name, "GROUPD_BENCH_TESTS": str(tests)}
    began = time.perf_counter()
    done = subprocess.run(
        [*command, str(FRESH)], env=environment, capture_output=True, text=True, check=False
    )
    took_s = time.perf_counter() - began
    if done.returncode or f"{tests} passed" not in done.stdout:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return took_s
