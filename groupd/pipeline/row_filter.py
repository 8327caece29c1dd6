"""Which rows of the log are wanted; decided before a record is decoded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from groupd.protocol.records.batch import BatchHeader


class RowFilter(Struct, frozen=True):
    """Limits on rows; None means no limit. `groups` and `types` are names. Times are microseconds.
    Lower bounds of times and offsets are inclusive, upper ones exclusive. `rest`: rows that name no
    group (markers, damage) and rows without a time are wanted too, whatever `groups` and the
    times are."""

    groups: frozenset[str] | None = None
    types: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    from_us: int | None = None
    until_us: int | None = None
    from_offset: int | None = None
    until_offset: int | None = None
    rest: bool = False

    @property
    def everything(self) -> bool:
        return self == RowFilter(rest=self.rest)

    def batch(self, header: BatchHeader) -> bool:
        """False if no record of the batch can be wanted."""
        if self.from_offset is not None and header.last_offset < self.from_offset:
            return False
        if self.until_offset is not None and header.base_offset >= self.until_offset:
            return False
        if self.from_us is None or (self.rest and header.max_timestamp_ms < 0):
            return True
        return header.max_timestamp_ms * 1000 >= self.from_us

    def offset(self, offset: int) -> bool:
        if self.from_offset is not None and offset < self.from_offset:
            return False
        return self.until_offset is None or offset < self.until_offset

    def time(self, time_us: int | None) -> bool:
        if self.from_us is None and self.until_us is None:
            return True
        if time_us is None:
            return self.rest
        if self.from_us is not None and time_us < self.from_us:
            return False
        return self.until_us is None or time_us < self.until_us

    def group(self, group: str | None) -> bool:
        if self.groups is None:
            return True
        return self.rest if group is None else group in self.groups

    def type(self, name: str) -> bool:
        return self.types is None or name in self.types

    def also(self, **limits: Any) -> RowFilter:
        """This filter narrowed by `limits`: sets are intersected, ranges cut."""
        merged = {}
        for name, value in limits.items():
            mine = getattr(self, name)
            if mine is None:
                merged[name] = value
            elif isinstance(mine, frozenset):
                merged[name] = mine & value
            else:
                merged[name] = max(mine, value) if name.startswith("from_") else min(mine, value)
        return replace(self, **merged)


EVERYTHING = RowFilter()
