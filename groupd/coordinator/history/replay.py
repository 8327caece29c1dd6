"""Answers questions from a log: the state at a point, and the changes between two points."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Protocol

from msgspec import Struct

from groupd.coordinator.history.changes import Change, CommittedOffset
from groupd.coordinator.history.extent import Certainty, Extent, ExtentSurvey
from groupd.coordinator.history.ledger import DEFAULT_RETENTION_MS, GroupLedger
from groupd.coordinator.history.stream import GroupStream, header_of

Batches = AsyncIterable[bytes]
"""Gives the batches of one log, in order, each as its bytes."""


class GroupLog(Protocol):
    """The log of the partition that a group belongs to."""

    @property
    def name(self) -> str: ...

    @property
    def start_offset(self) -> int: ...

    def batches(self) -> Batches:
        """The batches from the start of the log; may be called again."""
        ...


class BeforeHistory(Exception):
    """A log does not reach back to the time that was asked for. `earliest_ms`: the earliest time
    that it can answer."""

    def __init__(self, earliest_ms: int) -> None:
        super().__init__(earliest_ms)
        self.earliest_ms = earliest_ms


class GroupState(Struct, frozen=True):
    """A group at a point of the log. `as_of_offset` is the first offset that does not count.
    `group_type` is "" and `group_state` "Unknown" when the log had no such group."""

    group_id: str
    as_of_offset: int
    group_type: str
    group_state: str
    offsets: list[CommittedOffset]


async def survey(
    batches: Callable[[], Batches], start_offset: int, group_id: str, at_ms: int | None = None
) -> Extent:
    """How far back the log can answer for a group, and where `at_ms` lies in it. Reads the log
    once, and a second time if it was compacted. Raises UnreadableLog."""
    surveyor = ExtentSurvey(start_offset, at_ms)
    async for payload in batches():
        surveyor.add(payload)
    gap_end, end_offset = surveyor.gap_end, surveyor.end_offset
    if not gap_end:
        return Extent(0, None, end_offset, surveyor.cut_offset)
    certainty = Certainty(group_id, gap_end)
    async for payload in batches():
        certainty.add(payload)
    complete_from, earliest_ms = certainty.complete_from, certainty.earliest_ms
    return Extent(complete_from, earliest_ms or 0, end_offset, surveyor.cut_offset)


async def extent_of(log: GroupLog, group_id: str, at_ms: int | None = None) -> Extent:
    """The same as `survey`. Raises BeforeHistory if the log cannot tell the state at `at_ms`,
    UnreadableLog."""
    extent = await survey(log.batches, log.start_offset, group_id, at_ms)
    earliest_ms = extent.earliest_ms
    if at_ms is not None and earliest_ms is not None and extent.cut_offset < extent.complete_from:
        raise BeforeHistory(earliest_ms)
    return extent


async def state_at(batches: Batches, group_id: str, cut_offset: int) -> GroupState:
    """The group's state at `cut_offset`, the first offset that does not count. Raises
    UnreadableLog."""
    ledger = GroupLedger(group_id)
    stream = GroupStream(group_id)
    async for payload in batches:
        if header_of(payload).base_offset >= cut_offset:
            break
        ledger.apply([e for e in stream.entries(payload) if e.offset < cut_offset])
    group = ledger.group
    return GroupState(
        group_id,
        cut_offset,
        "" if group is None else group.type_name,
        "Unknown" if group is None else group.state_name(),
        ledger.committed(),
    )


async def changes(
    batches: Batches,
    group_id: str,
    extent: Extent,
    *,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> AsyncIterator[Change]:
    """Every change that the log can still tell, up to `extent.cut_offset`, in log order. The
    compacted part is replayed, but gives no changes, because the steps in between are missing
    there. Raises UnreadableLog."""
    ledger = GroupLedger(group_id, retention_ms)
    stream = GroupStream(group_id)
    async for payload in batches:
        if header_of(payload).base_offset >= extent.cut_offset:
            break
        batch = [e for e in stream.entries(payload) if e.offset < extent.cut_offset]
        for change in ledger.apply(batch):
            if change.log_offset >= extent.complete_from:
                yield change
