"""Consumers as the users of the harness have them: confluent-kafka, in threads and processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType

from confluent_kafka import Consumer, TopicPartition

Partition = tuple[str, int]
CLOSE_TIMEOUT_S = 20.0
CLOSE_HANGS = "https://github.com/confluentinc/librdkafka/issues/4527"
"""`close()` waits for ever if it has a cooperative assignor and an assignment is under way."""
PROGRAM = """
import json, sys
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.1)
"""


def settings(bootstrap: str, group: str, protocol: str) -> dict[str, str | int | bool]:
    """The settings of a consumer that reads from the start and commits by hand."""
    common: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        common |= {"partition.assignment.strategy": "cooperative-sticky"}
        # Without the latter it looks after its group every 500 ms only, see docs/testing.md.
        common |= {"heartbeat.interval.ms": 50, "statistics.interval.ms": 50}
    return common


class Member:
    """A consumer that polls on a thread until the end of the `with` block. `owned` follows its
    rebalance listener, `values` has what it was given, `moved` tells of every change. `more`: more
    settings."""

    def __init__(
        self, bootstrap: str, group: str, protocol: str = "consumer", **more: str | int | bool
    ) -> None:
        self.owned: set[Partition] = set()
        self.values: list[bytes] = []
        self.moved = threading.Condition()
        self.consumer = Consumer({**settings(bootstrap, group, protocol), **more})
        self._ended = threading.Event()
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._may_hang = protocol == "classic"
        self._thread = threading.Thread(target=self._poll, daemon=self._may_hang)

    def __enter__(self) -> Member:
        self._subscribe(["orders"])
        self._thread.start()
        return self

    def _subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def leave(self) -> None:
        self._ended.set()
        self._thread.join(CLOSE_TIMEOUT_S if self._may_hang else None)
        if self._thread.is_alive():
            print(f"close() of librdkafka does not return: {CLOSE_HANGS}")

    def wait(self, owned: int = -1, values: int = 0, timeout_s: float = 10.0) -> None:
        """Waits until it owns so many partitions, and was given so many records."""
        with self.moved:
            done = self.moved.wait_for(
                lambda: owned in (-1, len(self.owned)) and len(self.values) >= values, timeout_s
            )
        assert done, f"owns {self.owned}, was given {self.values}"

    def commit(self) -> None:
        """Commits on the polling thread: librdkafka never answers a synchronous commit while
        another thread polls."""
        done: Future[object] = Future()
        self._work.put(lambda: done.set_result(self.consumer.commit(asynchronous=False)))
        done.result(10)

    def subscribe(self, topics: list[str]) -> None:
        """Takes another subscription, on the polling thread."""
        self._work.put(lambda: self._subscribe(topics))

    def _poll(self) -> None:
        while not self._ended.is_set():
            with suppress(Empty):
                self._work.get_nowait()()
            message = self.consumer.poll(0.05)
            if message is not None and message.error() is None:
                with self.moved:
                    self.values.append(message.value())
                    self.moved.notify_all()
        self.consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self.moved:
            self.owned |= {(one.topic, one.partition) for one in partitions}
            self.moved.notify_all()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self.moved:
            self.owned -= {(one.topic, one.partition) for one in partitions}
            self.moved.notify_all()


class MemberProcess:
    """The same consumer in a process of its own, to be killed."""

    def __init__(
        self, bootstrap: str, group: str, protocol: str = "consumer", **more: str | int | bool
    ) -> None:
        config = {**settings(bootstrap, group, protocol), **more}
        self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(config)])

    def __enter__(self) -> MemberProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL: it says nothing any more."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Sends SIGSTOP: it is connected, but deaf and dumb."""
        self._process.send_signal(signal.SIGSTOP)
