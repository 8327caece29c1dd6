"""The present committed offsets, with when they last moved. Commits of a transaction count from its
COMMIT marker on."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from groupd.pipeline.fold.entry import FoldEntry, Value

NamedPlace = tuple[str, int]
"""Topic name and partition."""


class Committed(Struct):
    """`moved_ms`: when the offset last changed. `commit_ms`: when it was last committed."""

    offset: int
    commit_ms: int
    moved_ms: int
    expire_ms: int | None


class Offsets:
    """The committed offsets of all groups in a partition of the log."""

    __slots__ = ("_open", "by_group", "last_ms")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[NamedPlace, Committed]] = {}
        self.last_ms: dict[str, int] = {}
        self._open: dict[int, list[FoldEntry]] = {}

    def apply(self, entry: FoldEntry) -> None:
        """Applies a commit or its tombstone."""
        self.last_ms[entry.group] = entry.at_ms
        if entry.value is None:
            group = self.by_group.get(entry.group, {})
            group.pop((entry.topic, entry.partition), None)
            if not group:
                self.by_group.pop(entry.group, None)
                self.last_ms.pop(entry.group, None)
        elif entry.producer_id >= 0:
            self._open.setdefault(entry.producer_id, []).append(entry)
        else:
            self._commit(entry, entry.value, entry.at_ms)

    def end(self, entry: FoldEntry) -> None:
        """Applies the marker of a transaction."""
        for one in self._open.pop(entry.producer_id, ()):
            if entry.marker == "commit" and one.value is not None:
                self._commit(one, one.value, entry.at_ms)

    def of(self, group_id: str) -> Iterator[tuple[NamedPlace, Committed]]:
        yield from sorted(self.by_group.get(group_id, {}).items())

    def _commit(self, entry: FoldEntry, value: Value, at_ms: int) -> None:
        group = self.by_group.setdefault(entry.group, {})
        place = (entry.topic, entry.partition)
        before, offset = group.get(place), int(value["offset"])
        commit_ms = value["commit_ms"] if value["commit_ms"] is not None else at_ms
        moved_ms = before.moved_ms if before and before.offset == offset else at_ms
        group[place] = Committed(offset, commit_ms, moved_ms, value["expire_ms"])
