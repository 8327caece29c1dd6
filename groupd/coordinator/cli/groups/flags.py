"""Flags of the commands about groups: which log is read (of a store, or of a cluster), and which
groups `groupd groups list` shows, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from groupd.coordinator.cli.parse import DEFAULT_DATA_DIR, UsageError, one_of

SORTS = ("name", "lag", "members")
Row = Mapping[str, Any]


class LogLocation(Struct, frozen=True):
    """The place of an offsets log. `bootstrap` None: it is in a store. `command_config`: how to log
    in to a cluster (`groupd.coordinator.cli.kafka.cluster`)."""

    data_dir: Path
    store: str | None
    bootstrap: str | None
    command_config: Path | None


def log_location(
    data_dir: Path | None,
    store: str | None,
    bootstrap: str | None,
    command_config: Path | None = None,
) -> LogLocation:
    """Returns the log that the flags name. Raises UsageError if they name more than one."""
    if bootstrap is not None and (data_dir is not None or store is not None):
        raise UsageError("--bootstrap reads from a cluster: leave --data-dir and --store out")
    check_config(command_config, bootstrap)
    return LogLocation(data_dir or DEFAULT_DATA_DIR, store, bootstrap, command_config)


def check_config(command_config: Path | None, bootstrap: str | None) -> None:
    """Raises UsageError for a --command-config that would not be used."""
    if command_config is not None and bootstrap is None:
        raise UsageError("--command-config is for a cluster: name one with --bootstrap")


class GroupsWanted(Struct, frozen=True):
    """Which groups are shown, with which columns, in which order. `lag`: with their lag. `text`:
    part of the id, in upper or lower case. If sorted by a number, the largest comes first."""

    lag: bool = False
    sort: str = "name"
    text: str = ""

    @classmethod
    def parse(cls, sort: str, text: str, *, lag: bool) -> GroupsWanted:
        """Makes the filter from flags. If rows are sorted by a number, that number is shown, too.
        Raises UsageError."""
        one_of(sort, "--sort", SORTS)
        return cls(lag or sort != "name", sort, text)

    def of(self, rows: Iterable[Row]) -> list[Row]:
        """Returns the rows that are wanted, in order."""
        part = self.text.casefold()
        found = [row for row in rows if part in row["group_id"].casefold()]
        return sorted(found, key=self._order)

    def _order(self, row: Row) -> tuple[float, str]:
        number = None if self.sort == "name" else row.get(self.sort)
        return -1 if number is None else -1 - number, row["group_id"]
