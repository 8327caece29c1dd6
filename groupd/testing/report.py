"""A group's history as text, for failing tests. Bounded, because reports are read by people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from groupd.coordinator.plain_text import fields_text
from groupd.testing.answers import GroupDescription

EVENTS_MAX = 60
GROUPS_MAX = 5
LINE_MAX = 240


def timeline_text(events: Sequence[Mapping[str, Any]]) -> str:
    """The last `EVENTS_MAX` events, one a line."""
    if not events:
        return "  (no events)"
    left_out = len(events) - EVENTS_MAX
    lines = [f"  ... {left_out} earlier events"] if left_out > 0 else []
    return "\n".join(lines + [_line(event) for event in events[-EVENTS_MAX:]])


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


def group_text(group: GroupDescription) -> str:
    """State, members, who waits for whom: the view of `/groups/{id}` in a few lines."""
    if group is None:
        return "there is no such group"
    epoch = group.get("group_epoch", group.get("generation"))
    lines = [f"{group['type']} group in state {group['state']}, epoch {epoch}"]
    for member in group.get("members", ()):
        name = member["member_id"] + (f" ({member['client_id']})" if member["client_id"] else "")
        facts = f"owns {_places(member['owned'])}"
        if "member_epoch" in member:
            facts = f"epoch {member['member_epoch']}, {member['state']}, {facts}"
            if member["pending_revocation"]:
                facts += f", gives up {_places(member['pending_revocation'])}"
        lines.append(f"  member {name}: {facts}")
    lines += [
        f"  blocked: {entry['member_id'] or 'the group'}: {entry['why']}"
        for entry in group.get("blocked", ())
    ]
    for deadline in group.get("deadlines", ()):
        who = f" of {deadline['member_id']}" if deadline["member_id"] else ""
        lines.append(f"  {deadline['kind']}{who} is due in {deadline['in_ms']} ms")
    return "\n".join(lines)


def _places(owned: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{topic}-{n}" for topic, numbers in owned.items() for n in numbers) or "none"
