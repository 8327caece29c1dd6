"""Which groups `groupd groups list` shows, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.cli.parse import one_of

SORTS = ("name", "lag", "members")
Row = Mapping[str, Any]


class GroupsWanted(Struct, frozen=True):
    """Which groups are shown, with what, and in which order. `text`: part of a group's id, in upper
    or lower case. Sorted by a number, the largest comes first."""

    lag: bool = False
    sort: str = "name"
    text: str = ""

    @classmethod
    def parse(cls, sort: str, text: str, *, lag: bool) -> GroupsWanted:
        """To sort by a number is to ask for it. Raises UsageError."""
        one_of(sort, "--sort", SORTS)
        return cls(lag or sort != "name", sort, text)

    def of(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that are wanted, in order."""
        part = self.text.casefold()
        found = [row for row in rows if part in row["group_id"].casefold()]
        return sorted(found, key=self._place)

    def _place(self, row: Row) -> tuple[float, str]:
        number = None if self.sort == "name" else row.get(self.sort)
        return -1 if number is None else -1 - number, row["group_id"]
