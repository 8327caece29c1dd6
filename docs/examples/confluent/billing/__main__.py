"""`python -m billing SERVERS DATABASE`, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path

from billing.ledger import Ledger
from billing.orders import Order
from billing.processor import Processor


def charge(order: Order) -> None:
    print(f"charged {order.cents} cents for {order.order_id}", flush=True)


def main() -> None:
    servers, database = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Ledger(Path(database)) as ledger:
        Processor(servers, ledger, charge).run(stop)


main()
