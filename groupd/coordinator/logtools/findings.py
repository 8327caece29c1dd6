"""What `groupd log verify` finds and counts."""

from __future__ import annotations

from msgspec import Struct


class Finding(Struct, frozen=True):
    """`log`: the name of a log, or "store". `offset`: None if the finding is about the whole
    log."""

    log: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = self.log if self.offset is None else f"{self.log}@{self.offset}"
        return f"{place}: {self.reason}"


class Counts(Struct):
    logs: int = 0
    batches: int = 0
    records: int = 0
    groups: int = 0
    offsets: int = 0
    open_transactions: int = 0
    share_partitions: int = 0


Problem = tuple[int | None, str]
"""(offset, reason). The offset is None if the problem is about the whole log."""
