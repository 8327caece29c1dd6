"""One consumer of the demo, in a process of its own so that it can be killed.

Usage: `python consumer.py BOOTSTRAP GROUP TOPIC NAME`. It ends at SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException

COMMIT_EVERY_S = 0.5


def consume(bootstrap: str, group: str, topic: str, name: str) -> None:
    """Polls and commits until SIGTERM."""
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    last_commit = time.monotonic()
    dirty = False
    while running:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            dirty = True
        if dirty and time.monotonic() - last_commit >= COMMIT_EVERY_S:
            dirty = not _commit(consumer)
            last_commit = time.monotonic()
    consumer.close()


def _commit(consumer: Consumer) -> bool:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return False  # a rebalance is under way; the next round commits
    return True


if __name__ == "__main__":
    consume(*sys.argv[1:5])
