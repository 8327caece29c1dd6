"""`python -m billing SERVERS DATABASE`, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

from billing.ledger import Ledger
from billing.orders import Order
from billing.processor import Processor


def charge(order: Order) -> None:
    print(f"charged {order.cents} cents for {order.order_id}", flush=True)


def stop_at(*numbers: signal.Signals) -> threading.Event:
    """An event that is set at one of the signals. A thread sets it: their handler runs in the main
    thread, which may hold the lock that the event needs."""
    stop = threading.Event()
    signals: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        signal.signal(number, lambda number, _: signals.put(number))

    def wait() -> None:
        signals.get()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop


def main() -> None:
    servers, database = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    stop = stop_at(signal.SIGTERM, signal.SIGINT)
    with Ledger(Path(database)) as ledger:
        Processor(servers, ledger, charge).run(stop)


main()
