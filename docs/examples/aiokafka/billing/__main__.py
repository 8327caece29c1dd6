"""`python -m billing SERVERS`, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from billing.orders import Order
from billing.processor import Processor


async def charge(order: Order) -> None:
    print(f"charged {order.cents} cents for {order.order_id}", flush=True)


async def main() -> None:
    (servers,) = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Processor(servers, charge).run(stop)


asyncio.run(main())
