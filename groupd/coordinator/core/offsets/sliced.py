"""Work that may have to do with a hundred thousand offsets of a shard, in slices.

A slice leads to one outcome, and between two slices others have their turn. The work is a generator
that yields where a slice ends. What it knew of groups and offsets may be wrong by then, so it looks
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import astuple

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.offsets.delete import tombstone
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome
from groupd.protocol.records.schema import Record

SLICE_OFFSETS = 250
TOMBSTONE_COST = 5
"""A slice is below a millisecond; the slices of all shards may fall into one turn of the loop."""

SLICE_BYTES = 64 * 1024
"""Most bytes of the records of a slice."""

GROUPS_AT_ONCE = 500
"""At most this many groups are sorted between two stops."""

_RECORD_BYTES = 64
"""More than a tombstone takes in a batch beside the texts of its key."""


def bytes_of(tombstones: Sequence[Record]) -> int:
    """What they take in a batch, at most."""
    size = _RECORD_BYTES * len(tombstones)
    for key, _ in tombstones:
        parts = key if isinstance(key, tuple) else astuple(key)
        size += sum([len(part.encode()) for part in parts if isinstance(part, str)])
    return size


class Slice:
    """What the present slice has room for, and the outcome that it leads to. It looks at about
    `SLICE_OFFSETS` offsets, or a fifth of that if all of them go. `bytes_max`: most bytes of its
    records."""

    __slots__ = ("_bytes", "_bytes_max", "_counted", "_details", "_room", "now", "outcome")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def begin(self, now: Instant) -> None:
        """The next slice."""
        self.now = now
        self.outcome = Outcome()
        self._room: float = SLICE_OFFSETS
        self._bytes = 0
        self._counted: tuple[str, EventKind] | None = None
        self._details: dict[str, int] = {}

    def may_look(self) -> bool:
        """Whether it may look at something more."""
        return self._room > 0

    def may_write(self, size: int) -> bool:
        """Whether it may look at something more and write `size` more bytes. Tombstones that are
        larger than a slice may be are a slice of their own. If they are larger than a batch may be
        (`max.message.bytes`), their write is refused as that of any request would be."""
        return self.may_look() and (self._bytes == 0 or self._bytes + size <= self._bytes_max)

    def look(self, cost: float = 1) -> None:
        """Another offset, or something that takes as long as `cost` of them, is looked at."""
        self._room -= cost

    def bury(self, tombstones: Sequence[Record], size: int) -> None:
        """Write these tombstones, of `size` bytes (`bytes_of`)."""
        self._room -= TOMBSTONE_COST - 1
        self._bytes += size
        self.outcome.records += tombstones

    def bury_offset(
        self, group: Group, topic: str, partition: int, size: int, kind: EventKind, cause: str = ""
    ) -> None:
        """Write the tombstone of an offset. One event of this kind tells how many there are of a
        group in this slice."""
        group_id = group.group_id
        self.bury([tombstone(group_id, topic, partition)], size)
        if self._counted != (group_id, kind):
            self._counted, self._details = (group_id, kind), {"count": 0}
            event = Event(group.type_name, kind, group_id, cause=cause, details=self._details)
            self.outcome.events.append(event)
        self._details["count"] += 1


class SlicedWork:
    """`begin` makes the work's steps, which write into the slice that they are given."""

    __slots__ = ("_slice", "_steps", "done")

    def __init__(self, bytes_max: int, begin: Callable[[Slice], Steps[None]]) -> None:
        self._slice = Slice(bytes_max)
        self._steps = begin(self._slice)
        self.done = False

    def next_slice(self, now: Instant) -> Outcome:
        self._slice.begin(now)
        try:
            next(self._steps)
        except StopIteration:
            self.done = True
        return self._slice.outcome
