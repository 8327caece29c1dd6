"""The last events of each group, for the admin port and for failing tests.

There are three bounds: events per group, groups, and events of all groups together. The group that
has been quiet for longest is dropped first. Without these bounds a thousand new groups would need
as many megabytes for events as for members.

Events are kept as JSON and decoded when they are asked for; sequence numbers and times are in
arrays. As objects they would take several times the memory, and the garbage collector would examine
all of them again and again while many members join and leave.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from groupd.coordinator.core.slices import Pace, Steps, chunks, run_through, smallest
from groupd.coordinator.core.types import CLASSIC, Event, EventKind
from groupd.coordinator.history.rebalance_fold import rebalance_steps
from groupd.coordinator.history.rebalance_text import cause_text
from groupd.coordinator.plain_text import fields_text

EVENTS_PER_GROUP = 100
GROUPS_MAX = 2000
EVENTS_MAX = 10_000

LINES_MAX = 60
"""The most lines of a timeline as text, which people read."""
LINE_MAX = 240
"""The most characters of one line."""


class _Events:
    """The events of one group, oldest first, as JSON. `times`: sequence number and wall ms of each,
    in turn. `start`: sequence number, wall ms and event with which the last rebalance began; it is
    kept when later events have pushed that event out. `awaits_target`: further epochs belong to the
    same rebalance. `last`: what `last_rebalance` returns; None if there were events since it was
    found."""

    __slots__ = ("awaits_target", "events", "last", "start", "times")

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.times = array("q")
        self.start: tuple[int, int, bytes] | None = None
        self.awaits_target = False
        self.last: tuple[int, str] | tuple[()] | None = None


class Timeline:
    """Events by group, oldest first."""

    __slots__ = ("_count", "_groups", "_sequence")

    def __init__(self) -> None:
        self._count = 0
        self._groups: OrderedDict[str, _Events] = OrderedDict()
        self._sequence = 0

    def add(self, events: Iterable[Event], wall_ms: int) -> None:
        """Add the events of one input. Their sequence numbers are consecutive; before the next
        input there is a gap."""
        for event in events:
            group = self._groups.get(event.group_id)
            if group is None:
                group = self._groups[event.group_id] = _Events()
            else:
                self._groups.move_to_end(event.group_id)
            if len(group.events) == EVENTS_PER_GROUP:
                del group.events[0], group.times[:2]
            else:
                self._count += 1
            encoded = _encode(event)
            group.events.append(encoded)
            group.times.extend((self._sequence, wall_ms))
            group.last = None
            kind = event.kind
            if kind is EventKind.REBALANCE_STARTED or (
                kind is EventKind.GROUP_EPOCH_BUMPED and event.group_type != CLASSIC
            ):
                if not group.awaits_target or kind is EventKind.REBALANCE_STARTED:
                    group.start = self._sequence, wall_ms, encoded
                group.awaits_target = (
                    kind is EventKind.GROUP_EPOCH_BUMPED and event.details.get("members") != 0
                )
            elif kind in _NO_MORE_EPOCHS:
                group.awaits_target = False
            self._sequence += 1
        self._sequence += 1
        while len(self._groups) > GROUPS_MAX or self._count > EVENTS_MAX:
            _, gone = self._groups.popitem(last=False)
            self._count -= len(gone.events)

    def of(self, group_id: str) -> list[dict[str, Any]]:
        """Returns the events of a group as pages show them; an empty list for a group without
        events."""
        group = self._groups.get(group_id)
        if group is None:
            return []
        times = group.times
        return [
            _shown(sequence, wall_ms, event)
            for sequence, wall_ms, event in zip(times[::2], times[1::2], group.events, strict=True)
        ]

    def inputs(self, group_id: str) -> Iterator[tuple[int, list[Event]]]:
        """Yields what `rebalance_fold` takes: the wall ms of each input, and its events of the
        group. The event that began the last rebalance is included even if later events have been
        dropped."""
        group = self._groups.get(group_id)
        if group is None:
            return
        sequences, times = group.times[::2], group.times[1::2]
        if group.start is not None and group.start[0] < sequences[0]:
            yield group.start[1], [_decode(group.start[2])]
        some: list[Event] = []
        before = at = -1
        for sequence, wall_ms, event in zip(sequences, times, list(group.events), strict=True):
            if some and sequence != before + 1:
                yield at, some
                some = []
            some.append(_decode(event))
            before, at = sequence, wall_ms
        yield at, some

    def find_last(self, group_id: str, pace: Pace) -> Steps[None]:
        """Find what `last_rebalance` returns, if there were events since it was last found. `pace`:
        shared with the other groups that the caller goes through."""
        group = self._groups.get(group_id)
        if group is None or group.last is not None:
            return
        newest = group.times[-2]
        found = yield from rebalance_steps(self.inputs(group_id), pace=pace)
        if newest == group.times[-2]:  # no event has come during the stops
            known = bool(found) and found[-1].known
            group.last = (found[-1].since, cause_text(found[-1])) if known else ()

    def last_rebalance(self, group_id: str) -> dict[str, Any] | None:
        """Returns when the last rebalance of a group began, and why; None if that is not known.
        Lists of groups ask for it again and again, so it is kept until the next event."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        run_through(self.find_last(group_id, Pace()))
        return {"timestamp_ms": group.last[0], "cause": group.last[1]} if group.last else None

    def latest(self, count: int) -> Generator[None, None, list[dict[str, Any]]]:
        """Returns the last events of all groups, oldest first, each with its `group_id`. A
        generator that stops where other work may run."""
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
        """Yields the negative sequence number of each event, so newer events have lesser numbers.
        The events are added to `known` by that number."""
        for group_id, group in list(self._groups.items()):
            times = group.times
            for at, wall_ms, event in zip(times[::2], times[1::2], list(group.events), strict=True):
                known[-at] = (wall_ms, group_id, event)
                yield -at


_NO_MORE_EPOCHS = (
    EventKind.TARGET_INSTALLED,
    EventKind.GROUP_CONVERTED,
    EventKind.GROUP_DELETED,
)
"""After one of these, a new epoch begins another rebalance."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


def _shown(sequence: int, wall_ms: int, encoded: bytes) -> dict[str, Any]:
    event = _decode(encoded)
    return {
        "sequence": sequence,
        "timestamp_ms": wall_ms,
        "group_type": event.group_type,
        "event": event.kind.value,
        "member_id": event.member_id,
        "epoch": event.epoch,
        "cause": event.cause,
        "details": event.details,
    }


def timeline_text(events: Sequence[Mapping[str, Any]]) -> str:
    """Returns the last `LINES_MAX` events, one a line."""
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
