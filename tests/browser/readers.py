"""Real consumers whose pages are looked at: in threads, and in processes that can be killed.

`python -m tests.browser.readers BOOTSTRAP GROUP CLIENT_ID TOPIC` is such a process.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.daemon import ROOT
from tests.support.process import ChildProcess, wait_until

POLL_S = 0.05
TIMEOUT_S = 30.0
JOIN_S = 20.0


def settings(bootstrap: str, group: str, client_id: str, **more: Any) -> dict[str, Any]:
    """Those of a consumer of the new protocol."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client_id,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
        "log_level": 0,
        **more,
    }


class Reader:
    """A consumer that polls until `close`. While it hangs it sends heartbeats and reads nothing."""

    def __init__(
        self, bootstrap: str, group: str, client_id: str, topics: Sequence[str], **more: Any
    ) -> None:
        self._consumer = Consumer(settings(bootstrap, group, client_id, **more))
        self._consumer.subscribe(list(topics))
        self._over = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._reading = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self._goes_on.wait(POLL_S)
            with self._reading:
                if self._goes_on.is_set():
                    self._consumer.consume(500, timeout=POLL_S)
        self._consumer.close()

    def hang(self) -> None:
        """From now on it takes no record: what it is just reading comes before."""
        self._goes_on.clear()
        with self._reading:
            pass

    def go_on(self) -> None:
        self._goes_on.set()

    def close(self) -> None:
        """Leaves the group."""
        self._over.set()
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive(), f"{self._thread.name} does not end"

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ReaderProcess:
    """A consumer in a process of its own. Leaving the block kills it."""

    def __init__(
        self, directory: Path, bootstrap: str, group: str, client_id: str, topic: str
    ) -> None:
        command = [sys.executable, "-m", __name__, bootstrap, group, client_id, topic]
        self._child = ChildProcess(command, stderr_path=directory / "reader.log", cwd=ROOT)

    def kill(self) -> None:
        """SIGKILL: the group is not told."""
        self._child.kill()

    def __enter__(self) -> ReaderProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.close()


def produce(bootstrap: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commits for a group without members."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

    def done() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            refused.append(error)
            return False
        return True

    refused: list[KafkaException] = []
    wait_until(done, TIMEOUT_S, f"a commit for {group}", lambda: str(refused[-1:]))
    consumer.close()


if __name__ == "__main__":
    address, group_id, name, topic_name = sys.argv[1:]
    reader = Reader(address, group_id, name, [topic_name])
    threading.Event().wait()
