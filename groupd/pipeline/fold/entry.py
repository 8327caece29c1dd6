"""What goes into a fold and what comes out: a record of the log as plain data, facts (rows of
result tables), and reports to observers.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from groupd.pipeline.fold.state import FoldedGroup, MemberInterval, MembershipEnd, Rebalance

# The `value` of an entry has the fields of the record's struct in `pipeline.schema`, except that
# instants are milliseconds since 1970 under other names: `commit_ms`, `expire_ms`,
# `current_state_ms`, `assignment_ms`.

EntryValue = Mapping[str, Any]

OFFSET_KINDS = frozenset({0, 1})
CLASSIC_GROUP = 2
CONSUMER_GROUP = 3
MEMBER_METADATA = 5
TARGET_METADATA = 6
TARGET_MEMBER = 7
CURRENT_MEMBER = 8
REGEX = 16
KINDS = (0, 1, 2, 3, 5, 6, 7, 8, 16)
"""The numbers of the record types that concern groups."""


class FoldEntry(NamedTuple):
    """One record. `kind`: the record type number, None for the end of a transaction (then `marker`
    is commit or abort). `value` is None if `tombstone`. `producer_id`: -1 outside of transactions.
    All fields but `value` are columns of the pass (`pipeline.group_pass`)."""

    log_partition: int
    log_offset: int
    at_ms: int
    kind: int | None
    group: str = ""
    member: str = ""
    topic: str = ""
    partition: int = -1
    tombstone: bool = False
    producer_id: int = -1
    marker: str | None = None
    value: EntryValue | None = None


FactRow = dict[str, Any]


class FoldFacts:
    """Collects the rows of the tables that are wanted; rows of other tables are dropped at once."""

    __slots__ = ("_rows", "_wanted")

    def __init__(self, wanted: Container[str]) -> None:
        self._wanted = wanted
        self._rows: list[tuple[str, FactRow]] = []

    def add(self, table: str, row: FactRow) -> None:
        if table in self._wanted:
            self._rows.append((table, row))

    def take(self) -> list[tuple[str, FactRow]]:
        """Returns the rows that were added since the last call."""
        rows, self._rows = self._rows, []
        return rows


class FoldObserver:
    """A base class whose methods do nothing. Observers see each group in its present state and must
    not change it."""

    def membership_ended(
        self, group: FoldedGroup, member: MemberInterval, at_ms: int, ending: MembershipEnd
    ) -> None:
        """The member is gone."""

    def baseline(self, group: FoldedGroup) -> None:
        """A target without a known rebalance: the history of the group begins with it."""

    def rebalance_opened(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        """A rebalance begins; its triggers and members are known."""

    def target_installed(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        """The rebalance has its target: `group.target` is the new one, `group.changed` has the
        former owners."""

    def rebalance_over(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        """The row of the rebalance is written."""

    def committed(
        self, group: FoldedGroup | None, entry: FoldEntry, holder: MemberInterval | None
    ) -> None:
        """An offset record of any kind. `holder`: the member that holds its partition."""

    def transaction_ended(self, entry: FoldEntry) -> None:
        """The marker of a transaction."""

    def group_deleted(self, group_id: str) -> None:
        """The tombstone of the group itself."""

    def finished(self, groups: dict[str, FoldedGroup]) -> None:
        """The log partition is over."""
