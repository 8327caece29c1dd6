"""Facts: rows of result tables, as dicts by column name, with times in milliseconds."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

Row = dict[str, Any]


class Facts:
    """Collects the rows of the tables that are wanted; rows of other tables are dropped at once."""

    __slots__ = ("_rows", "_wanted")

    def __init__(self, wanted: Container[str]) -> None:
        self._wanted = wanted
        self._rows: list[tuple[str, Row]] = []

    def add(self, table: str, row: Row) -> None:
        if table in self._wanted:
            self._rows.append((table, row))

    def take(self) -> list[tuple[str, Row]]:
        """Returns the rows that were added since the last call."""
        rows, self._rows = self._rows, []
        return rows
