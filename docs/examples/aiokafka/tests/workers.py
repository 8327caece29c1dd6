"""The program under test, on tasks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from billing.orders import Order
from billing.processor import Processor


def order(number: int, partition: int | None = None) -> dict[str, object]:
    """A record for `groupd.produce`."""
    record: dict[str, object] = {"value": json.dumps({"id": f"order-{number}", "cents": 100})}
    return record if partition is None else {**record, "partition": partition}


class Worker:
    """A processor. `charged`: how often each order was."""

    def __init__(self, servers: str, charge: Callable[[Order], Awaitable[None]] | None) -> None:
        self.charged: Counter[str] = Counter()
        self._on_charge = charge
        self.processor = Processor(servers, self._charge, heartbeat_ms=50)

    async def _charge(self, order: Order) -> None:
        self.charged[order.order_id] += 1
        if self._on_charge is not None:
            await self._on_charge(order)


@asynccontextmanager
async def working(
    groupd, charge: Callable[[Order], Awaitable[None]] | None = None
) -> AsyncIterator[Worker]:
    """A processor on a task until the end of `async with`."""
    worker, stop = Worker(groupd.bootstrap_servers, charge), asyncio.Event()
    task = asyncio.create_task(worker.processor.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await task  # what went wrong there goes wrong here
