"""The consumer: every order is billed at least once, and a second time does no harm.

- A batch is committed only after its invoices are in the topic.
- aiokafka rebalances on a task of its own, so a partition is given up only when the batch in hand
  is finished and committed (`_working`); a batch that comes too late for that is dropped, and
  whoever has its partitions now reads it again.
- Invoices have the order's id as their key and always the same content: whoever reads them knows
  an order that was billed again after a crash.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    TopicPartition,
)
from aiokafka.errors import CommitFailedError, IllegalGenerationError, UnknownMemberIdError

from billing.orders import BadOrder, Order, parse

log = logging.getLogger("billing")

ORDERS, INVOICES, REJECTED = "orders", "invoices", "orders-rejected"
GROUP = "billing"
BATCH = 100


class Processor(ConsumerRebalanceListener):
    """`charge` takes the money for one order. It may be called again for an order whose charge
    succeeded just before a crash, so it passes the order's id on as its idempotency key."""

    def __init__(
        self, servers: str, charge: Callable[[Order], Awaitable[None]], heartbeat_ms: int = 3000
    ) -> None:
        self._servers, self._charge, self._heartbeat_ms = servers, charge, heartbeat_ms
        self._working = asyncio.Lock()
        self._rebalances = 0
        self.refused = 0
        """Commits that came too late."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`, or until something fails for good."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=45_000,
            heartbeat_interval_ms=self._heartbeat_ms,
        )
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True)
        async with producer, consumer:
            consumer.subscribe([ORDERS], listener=self)
            while not stop.is_set():
                batch = await consumer.getmany(timeout_ms=100, max_records=BATCH)
                rebalances = self._rebalances
                async with self._working:
                    if rebalances == self._rebalances:
                        await self._bill(batch, producer)
                        await self._commit(batch, consumer)

    async def _bill(
        self, batch: dict[TopicPartition, list[ConsumerRecord]], producer: AIOKafkaProducer
    ) -> None:
        written = []
        for record in (record for records in batch.values() for record in records):
            try:
                order = parse(record.value)
            except BadOrder as bad:
                place = f"{record.topic}-{record.partition}@{record.offset}"
                topic, key, value = REJECTED, place, str(bad)
            else:
                await self._charge(order)
                topic, key = INVOICES, order.order_id
                value = json.dumps({"order": order.order_id, "cents": order.cents})
            written.append(await producer.send(topic, value.encode(), key=key.encode()))
        await asyncio.gather(*written)

    async def _commit(
        self, batch: dict[TopicPartition, list[ConsumerRecord]], consumer: AIOKafkaConsumer
    ) -> None:
        offsets = {at: records[-1].offset + 1 for at, records in batch.items() if records}
        if not offsets:
            return
        try:
            await consumer.commit(offsets)
        except (CommitFailedError, IllegalGenerationError, UnknownMemberIdError) as error:
            self.refused += 1
            log.warning("somebody else has our partitions: %s", error)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        async with self._working:
            self._rebalances += 1

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        log.info("we have %s", sorted(at.partition for at in assigned))
