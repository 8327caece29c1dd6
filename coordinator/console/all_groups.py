"""All groups, live: a row for each, and after that the rows that have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import json

from groupd.coordinator.console.asking import Asking
from groupd.coordinator.console.live import event
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.http_stream import Event

Row = dict[str, Any]
ROW_MS = 0.015
"""What a row costs, from the group to the comparison."""


class AllGroups:
    """A `live.LiveSource`. `node()`: which node this is, as JSON-friendly data."""

    def __init__(
        self,
        asking: Asking,
        work: LongWork,
        now: Callable[[], Instant],
        node: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._asking = asking
        self._work = work
        self._now = now
        self._node = node
        self.cost_ms = 0.0
        self._rows: dict[str, Row] = {}
        self._version = 0
        self._whole: Event = ()
        """The event with everything, for this version; empty until somebody wants it."""

    async def look(self) -> Event | None:
        rows: dict[str, Row] = {}
        changed: list[Row] = []
        async for some in self._asking.rows("groups", query={"trend": "1"}):
            await self._work.run(self._compare(some, rows, changed))
        gone = [group_id for group_id in self._rows if group_id not in rows]
        self._rows = rows
        self.cost_ms = len(rows) * ROW_MS
        if not changed and not gone and self._version:
            return None
        self._version += 1
        self._whole = ()
        head = {"version": self._version, "now_ms": self._now().wall_ms, "gone": gone}
        return await self._work.run(_encoded("changes", head, changed))

    def _compare(self, some: list[Row], rows: dict[str, Row], changed: list[Row]) -> Steps[None]:
        for chunk in chunks(some):
            for row in chunk:
                group_id = row["group_id"]
                rows[group_id] = row
                if self._rows.get(group_id) != row:
                    changed.append(row)
            yield

    async def whole(self) -> Event:
        if not self._whole:
            head = {"version": self._version, "now_ms": self._now().wall_ms, "node": self._node()}
            version, rows = self._version, list(self._rows.values())
            made = await self._work.run(_encoded("snapshot", head, rows))
            if version != self._version:
                return made  # rows have changed meanwhile; the next event tells
            self._whole = made
        return self._whole


def _encoded(name: str, head: Mapping[str, Any], rows: list[Row]) -> Steps[Event]:
    """The event, made a part at a time."""
    parts: list[bytes | memoryview] = []
    for some in chunks(rows):
        if parts:
            parts.append(b",")
        parts.append(memoryview(json.encode(some))[1:-1])
        yield
    return event(name, json.encode(head)[:-1], b',"rows":[', *parts, b"]}")
