"""The consumer: every order is billed at least once, and a second time does no harm.

- An offset is committed only after the invoices before it are durable.
- Before a partition goes to another member, what was done is flushed and committed (`_revoked`), so
  the other one starts where this one ended.
- A partition that is lost already is not committed: somebody else has it.
- A crash between flush and commit brings the orders again; the ledger knows them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from billing.ledger import Ledger
from billing.orders import BadOrder, Order, parse

log = logging.getLogger("billing")

TOPIC = "orders"
GROUP = "billing"
COMMIT_ORDERS = 100
# The partitions are with somebody else, who will do the orders again.
FENCED = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.FENCED_INSTANCE_ID,
}


class Processor:
    """`charge` takes the money for one order. It may be called again for an order whose charge
    succeeded just before a crash, so it passes the order's id on as its idempotency key."""

    def __init__(
        self,
        servers: str,
        ledger: Ledger,
        charge: Callable[[Order], None],
        commit_seconds: float = 1.0,
    ) -> None:
        self._ledger = ledger
        self._charge = charge
        self._commit_seconds = commit_seconds
        self._done: dict[int, int] = {}
        """Partition -> the offset to commit."""
        self._orders = 0
        self._committed_at = time.monotonic()
        self.refused = 0
        """Commits that came too late."""
        self.repeated = 0
        """Orders that were billed already."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": GROUP,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # After a failover these save librdkafka most of a minute: the answer to its search
                # for the coordinator waits behind a fetch, and commits tried again too early make
                # it search anew.
                "fetch.wait.max.ms": 100,
                "retry.backoff.ms": 500,
                "reconnect.backoff.max.ms": 1000,
            }
        )

    def run(self, stop: threading.Event) -> None:
        """Until `stop`, or until something fails for good."""
        self._consumer.subscribe([TOPIC], on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not stop.is_set():
                message = self._consumer.poll(0.1)
                if message is not None:
                    self._take(message)
                late = time.monotonic() - self._committed_at >= self._commit_seconds
                if self._orders >= COMMIT_ORDERS or (self._done and late):
                    self._commit()
        finally:
            self._consumer.close()  # calls _revoked for what it still has

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
            log.warning("kafka: %s", error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        try:
            order = parse(message.value())
        except BadOrder as bad:
            self._ledger.reject(f"{TOPIC}-{partition}@{offset}", str(bad))
        else:
            if self._ledger.has(order.order_id):
                self.repeated += 1
            else:
                self._charge(order)
                self._ledger.bill(order)
        self._done[partition] = offset + 1
        self._orders += 1

    def _commit(self) -> None:
        """What was done, if anything. If the broker does not take it now, it is tried again."""
        self._ledger.flush()
        self._committed_at = time.monotonic()
        if not self._done:
            return
        offsets = [TopicPartition(TOPIC, at, offset) for at, offset in self._done.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            error = failure.args[0]
        else:
            error = next((one.error for one in answers if one.error is not None), None)
        if error is not None and error.code() not in FENCED:
            log.warning("not committed yet: %s", error)
            return
        if error is not None:
            self.refused += 1
            log.warning("somebody else has our partitions: %s", error)
        self._done.clear()
        self._orders = 0

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """We still have them until this returns."""
        self._commit()
        self._forget(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """They are gone already."""
        self._ledger.flush()
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._done.pop(one.partition, None)
