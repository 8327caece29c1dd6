"""The last events of each group, for the admin port and for failing tests.

There are three bounds: events per group, groups, and events of all groups together; the group that
has been quiet for longest goes first. Without them a thousand new groups would hold as many
megabytes of events as of members.

Events are kept as JSON and read again when somebody asks for them; sequence numbers and times stand
in arrays. As objects they would take several times the memory, and the garbage collector would look
at all of them again and again while many members come or go.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from groupd.coordinator.core.slices import chunks, smallest
from groupd.coordinator.core.types import CLASSIC, Event, EventKind
from groupd.coordinator.history.rebalance_story import (
    NO_CLIENTS,
    PEOPLE,
    MemberNames,
    causes_of,
    causes_text,
)
from groupd.coordinator.plain_text import fields_text

EVENTS_PER_GROUP = 100
GROUPS_MAX = 2000
EVENTS_MAX = 10_000

LINES_MAX = 60
"""The most lines of a timeline as text, which people read."""
LINE_MAX = 240
"""The most characters of one line."""


class _Events:
    """The events of one group, oldest first: as JSON, the values of `Event` but the group's id.
    `times`: sequence number and wall ms of each, in turn. `rebalance`: sequence number, wall ms and
    event of the last rebalance's begin."""

    __slots__ = ("events", "rebalance", "times")

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.rebalance: tuple[int, int, bytes] | None = None
        self.times = array("q")


class Timeline:
    """Events by group, oldest first."""

    __slots__ = ("_count", "_groups", "_sequence")

    def __init__(self) -> None:
        self._count = 0
        self._groups: OrderedDict[str, _Events] = OrderedDict()
        self._sequence = 0

    def add(self, event: Event, wall_ms: int) -> None:
        group = self._groups.get(event.group_id)
        if group is None:
            group = self._groups[event.group_id] = _Events()
        else:
            self._groups.move_to_end(event.group_id)
        if len(group.events) == EVENTS_PER_GROUP:
            del group.events[0], group.times[:2]
        else:
            self._count += 1
        kind, group_type = event.kind, event.group_type
        values = (group_type, kind, event.member_id, event.epoch, event.cause, event.details)
        encoded = msgspec.json.encode(values)
        group.events.append(encoded)
        group.times.extend((self._sequence, wall_ms))
        new_epoch = kind is EventKind.GROUP_EPOCH_BUMPED and group_type != CLASSIC
        if new_epoch or kind is EventKind.REBALANCE_STARTED:
            group.rebalance = (self._sequence, wall_ms, encoded)
        self._sequence += 1
        while len(self._groups) > GROUPS_MAX or self._count > EVENTS_MAX:
            _, gone = self._groups.popitem(last=False)
            self._count -= len(gone.events)

    def of(self, group_id: str) -> list[dict[str, Any]]:
        """Empty for a group without events."""
        group = self._groups.get(group_id)
        if group is None:
            return []
        times = group.times
        return [
            _shown(sequence, wall_ms, event)
            for sequence, wall_ms, event in zip(times[::2], times[1::2], group.events, strict=True)
        ]

    def newest(self, group_id: str) -> int:
        """The sequence number of the newest event of a group; -1 without any."""
        group = self._groups.get(group_id)
        return -1 if group is None else group.times[-2]

    def last_rebalance(self, group_id: str) -> dict[str, Any] | None:
        """When the last rebalance of a group began, and why; None: not known."""
        group = self._groups.get(group_id)
        if group is None or group.rebalance is None:
            return None
        return {"timestamp_ms": group.rebalance[1], "cause": _cause(group, *group.rebalance)}

    def latest(self, count: int) -> Generator[None, None, list[dict[str, Any]]]:
        """The last events of all groups, oldest first, each with its `group_id`. A generator that
        stops where other work may run."""
        known: dict[int, tuple[int, str, bytes]] = {}
        newest = yield from smallest(self._backwards(known), count)
        found = []
        for some in chunks(reversed(newest)):
            for at in some:
                wall_ms, group_id, event = known[at]
                found.append({"group_id": group_id, **_shown(-at, wall_ms, event)})
            yield
        return found

    def _backwards(self, known: dict[int, tuple[int, str, bytes]]) -> Iterator[int]:
        """The negative sequence number of each event, so newer events have lesser numbers; `known`
        gets the events by it."""
        for group_id, group in list(self._groups.items()):
            times = group.times
            for at, wall_ms, event in zip(times[::2], times[1::2], list(group.events), strict=True):
                known[-at] = (wall_ms, group_id, event)
                yield -at


def _cause(group: _Events, sequence: int, wall_ms: int, event: bytes) -> str:
    """Why the rebalance began that this event begins; the events before it may be gone."""
    times = group.times
    sequences = times[::2]
    lead = sequences.index(sequence) if sequence in sequences else 0
    told = [_shown(0, wall_ms, event)]
    while lead and times[2 * lead - 1] == wall_ms:
        lead -= 1
        earlier = _shown(0, wall_ms, group.events[lead])
        if earlier["event"] not in PEOPLE:
            break
        told.append(earlier)
    start, *before = told
    before.reverse()
    classic = start["event"] == EventKind.REBALANCE_STARTED.value
    return causes_text(causes_of(start, before, MemberNames(before, NO_CLIENTS), classic=classic))


def _shown(sequence: int, wall_ms: int, event: bytes) -> dict[str, Any]:
    group_type, kind, member_id, epoch, cause, details = msgspec.json.decode(event)
    return {
        "sequence": sequence,
        "timestamp_ms": wall_ms,
        "group_type": group_type,
        "event": kind,
        "member_id": member_id,
        "epoch": epoch,
        "cause": cause,
        "details": details,
    }


def timeline_text(events: Sequence[Mapping[str, Any]]) -> str:
    """The last `LINES_MAX` events, one a line."""
    if not events:
        return "  (no events)"
    left_out = len(events) - LINES_MAX
    lines = [f"  ... {left_out} earlier events"] if left_out > 0 else []
    return "\n".join(lines + [_line(event) for event in events[-LINES_MAX:]])


def _line(event: Mapping[str, Any]) -> str:
    at = datetime.fromtimestamp(event["timestamp_ms"] / 1000, UTC)
    parts = [f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}", event["event"]]
    if event["member_id"]:
        parts.append(f"member={event['member_id']}")
    if event["epoch"] >= 0:
        parts.append(f"epoch={event['epoch']}")
    if event["details"]:
        parts.append(fields_text(event["details"]))
    if event["cause"]:
        parts.append(f"({event['cause']})")
    line = "  " + " ".join(parts)
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 3] + "..."
