"""The program under test, on threads and in processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pytest

from billing.ledger import Ledger
from billing.orders import Order
from billing.processor import Processor

PROJECT = Path(__file__).parents[1]


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


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "billing.sqlite"
    Ledger(path).close()
    return path


@pytest.fixture
def ledger(database: Path) -> Iterator[Ledger]:
    """To look into what the program has written."""
    with Ledger(database) as opened:
        yield opened


@pytest.fixture
def start_process(groupd, database: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `python -m billing`; what still runs at the end is killed."""
    command = [sys.executable, "-m", "billing", groupd.bootstrap_servers, str(database)]
    with ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen(command, cwd=PROJECT))
            stack.callback(process.kill)
            return process

        yield start
