"""The invoices, in SQLite. An order that comes a second time changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import TracebackType

from billing.orders import Order

SCHEMA = """
CREATE TABLE IF NOT EXISTS invoices (order_id TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS rejected (place TEXT PRIMARY KEY, reason TEXT NOT NULL);
"""


class Ledger:
    """For one thread. What was added is kept in memory until `flush` makes it durable: a
    transaction that stays open for longer would lock the other instances out."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=30)
        self._database.executescript(SCHEMA)
        self._billed: dict[str, int] = {}
        self._rejected: dict[str, str] = {}

    def has(self, order_id: str) -> bool:
        if order_id in self._billed:
            return True
        found = self._database.execute("SELECT 1 FROM invoices WHERE order_id = ?", (order_id,))
        return found.fetchone() is not None

    def bill(self, order: Order) -> None:
        self._billed[order.order_id] = order.cents

    def reject(self, place: str, reason: str) -> None:
        self._rejected[place] = reason

    def flush(self) -> None:
        if self._billed or self._rejected:
            into = "INSERT OR IGNORE INTO"
            with self._database:  # one transaction
                self._database.executemany(f"{into} invoices VALUES (?, ?)", self._billed.items())
                self._database.executemany(f"{into} rejected VALUES (?, ?)", self._rejected.items())
            self._billed.clear()
            self._rejected.clear()

    def invoices(self) -> dict[str, int]:
        return dict(self._database.execute("SELECT order_id, cents FROM invoices"))

    def rejected(self) -> dict[str, str]:
        return dict(self._database.execute("SELECT place, reason FROM rejected"))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
