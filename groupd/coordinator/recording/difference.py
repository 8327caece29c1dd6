"""A difference between a recording and its replay, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from groupd.coordinator.recording.compare import FieldDifference
from groupd.coordinator.recording.requests import RequestFacts, value_shown
from groupd.coordinator.runtime.timeline import timeline_text

FIELDS_SHOWN = 10
EVENTS_SHOWN = 5


class Difference(Struct, frozen=True):
    """A difference. `request`: the request whose reply differs; `fields`: all places where it
    differs; `before`: earlier requests of the same group or connection; `events`: the events of the
    group in the replay."""

    request: RequestFacts
    fields: tuple[FieldDifference, ...]
    before: tuple[RequestFacts, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        lines = [self.request.shown()]
        for field in self.fields[:FIELDS_SHOWN]:
            lines.append(f"  {field.path or 'the reply'}:")
            lines.append(f"    recorded: {value_shown(field.path, field.expected)}")
            lines.append(f"    replayed: {value_shown(field.path, field.got)}")
        if len(self.fields) > FIELDS_SHOWN:
            lines.append(f"  and {len(self.fields) - FIELDS_SHOWN} more fields")
        if self.before:
            lines.append("before it:")
            lines += [f"  {one.shown()}" for one in self.before]
        if self.events:
            lines.append("events of the group in the replay:")
            lines.append(timeline_text(self.events[-EVENTS_SHOWN:]))
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The difference as `groupd replay --json` writes it."""
        return {
            "request": asdict(self.request),
            "fields": [asdict(field) for field in self.fields],
            "before": [asdict(one) for one in self.before],
            "events": [dict(event) for event in self.events],
        }
