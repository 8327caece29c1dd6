"""Which records a person wants to see: groups, types, a range of times."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from groupd.coordinator.logtools.entries import Entry
from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.record_types import CHOICES, MARKER
from groupd.protocol.records.batch import BatchHeader


def parse_types(text: str | None) -> frozenset[str]:
    """The names of a comma-separated list; empty = all."""
    names = frozenset(part.strip() for part in (text or "").split(",") if part.strip())
    for name in sorted(names - set(CHOICES)):
        raise LogToolError(f"--type {name}: must be one of {', '.join(CHOICES)}")
    return names


class Selection(Struct):
    """`from_ms` inclusive, `to_ms` exclusive. Markers have no group: with `groups` those are
    shown that end a transaction which wrote to one of them, so one object reads one log."""

    groups: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    from_ms: int | None = None
    to_ms: int | None = None
    _producers: set[int] = field(default_factory=set)

    @property
    def everything(self) -> bool:
        return not (self.groups or self.types) and self.from_ms is None and self.to_ms is None

    def may_hold(self, header: BatchHeader) -> bool:
        """False when no record of a batch can be meant. Transactions are followed all the same,
        so only plain batches are passed over."""
        if self.from_ms is None or header.is_transactional:
            return True
        return header.max_timestamp_ms >= self.from_ms

    def of(self, entries: Iterable[Entry]) -> Iterable[Entry]:
        return (entry for entry in entries if self._wants(entry))

    def _wants(self, entry: Entry) -> bool:
        if self.groups and not self._of_group(entry):
            return False
        if self.types and entry.kind not in self.types:
            return False
        time_ms = entry.raw.timestamp_ms
        if self.from_ms is not None and time_ms < self.from_ms:
            return False
        return self.to_ms is None or time_ms < self.to_ms

    def _of_group(self, entry: Entry) -> bool:
        producer_id = entry.header.producer_id
        if entry.kind == MARKER:
            found = producer_id in self._producers
            self._producers.discard(producer_id)
            return found
        if entry.group not in self.groups:
            return False
        if entry.header.is_transactional:
            self._producers.add(producer_id)
        return True
