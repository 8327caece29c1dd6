"""The program under test, on threads."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from billing.ledger import Ledger
from billing.orders import Order
from billing.processor import Processor


def order(number: int, partition: int | None = None) -> dict[str, object]:
    """A record for `groupd.produce`."""
    record: dict[str, object] = {"value": json.dumps({"id": f"order-{number}", "cents": 100})}
    return record if partition is None else {**record, "partition": partition}


class Worker:
    """A processor on a thread until the end of `with`. `charged`: how often each order was."""

    def __init__(
        self,
        servers: str,
        database: Path,
        charge: Callable[[Order], None] = lambda order: None,
        commit_seconds: float = 0.1,
    ) -> None:
        self.charged: Counter[str] = Counter()
        self.processor: Processor | None = None
        self._servers, self._database = servers, database
        self._on_charge, self._commit_seconds = charge, commit_seconds
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1)

    def _run(self) -> None:
        with Ledger(self._database) as ledger:
            self.processor = Processor(self._servers, ledger, self._charge, self._commit_seconds)
            self.processor.run(self._stop)

    def _charge(self, order: Order) -> None:
        self.charged[order.order_id] += 1
        self._on_charge(order)

    def __enter__(self) -> Worker:
        self._running = self._thread.submit(self._run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.shutdown()
        self._running.result()  # what went wrong there goes wrong here
