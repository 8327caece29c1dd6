"""`groupd groups events` and `groupd groups why`: the recent events of groups, as a running daemon
remembers them; and the last rebalances of a group, with their causes and steps."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from groupd.coordinator.admin.http_messages import path_of
from groupd.coordinator.cli.admin_port import AdminPort, get
from groupd.coordinator.cli.command_errors import note
from groupd.coordinator.cli.groups.flags import Row
from groupd.coordinator.cli.groups.listing import (
    judgement_of,
    print_judgement,
    print_waits,
    whole_group,
)
from groupd.coordinator.cli.groups.share import share_page
from groupd.coordinator.cli.parse import show_time
from groupd.coordinator.cli.tables import json_line, output_width, wrapped
from groupd.coordinator.core.types import EventKind
from groupd.coordinator.plain_text import fields_text

FOLLOW_S = 1.0

Key = tuple[str, int, int]


def show_events(
    group: str | None, admin: AdminPort, *, follow: bool, as_json: bool, wide: bool
) -> None:
    """Prints the events, oldest first. `follow`: also new events, until the user interrupts."""
    with suppress(KeyboardInterrupt):
        _show(group, admin, follow, as_json, None if wide else output_width())


def _show(
    group: str | None, admin: AdminPort, follow: bool, as_json: bool, width: int | None
) -> None:
    path = "/events" if group is None else path_of(("groups", group, "events"))
    shown: set[Key] = set()
    while True:
        events = get(admin, path)
        new = [event for event in events if _key(event) not in shown]
        for event in new:
            if as_json:
                json_line({"group_id": group, **event})
                continue
            for line in wrapped(event_text(event), width):
                print(line)
        if not follow:
            break
        # Events that the daemon has forgotten are not sent again, so their keys need not be kept.
        shown = {_key(event) for event in events}
        sys.stdout.flush()
        time.sleep(FOLLOW_S)
    if not new:
        note("no events" if group is None else f"no events of group {group} since the start")


def _key(event: Row) -> Key:
    """Identifies an event. The sequence number is not enough: a restarted daemon counts from 0."""
    return event.get("group_id", ""), event["timestamp_ms"], event["sequence"]


def event_text(event: Row) -> str:
    """Describes an event in one line: the time, the group if the event has it, the event, the
    member and the cause, then the details."""
    parts = [show_time(event["timestamp_ms"])]
    parts += [event["group_id"]] if "group_id" in event else []
    parts.append(event["event"])
    if event["member_id"]:
        parts.append(event["member_id"])
    if event["cause"]:
        parts.append(f"({event['cause']})")
    if event["epoch"] >= 0:
        parts.append(f"epoch={event['epoch']}")
    details = fields_text(event["details"])
    return " ".join([*parts, details] if details else parts)


def why(group: str, last: int, admin: AdminPort, *, as_json: bool, wide: bool) -> None:
    """Prints the judgement on the group, what it waits for, and its last rebalances, newest
    first."""
    path = path_of(("groups", group))
    found = whole_group(admin, path)
    found |= share_page(admin, path, found)
    stories = get(admin, f"{path}/rebalances")[:last]
    if as_json:
        for story in stories:
            json_line({"group_id": group, **story})
        return
    print(f"{group}: {found['state']}")
    print_judgement(judgement_of(admin, path), wide=wide)
    print_waits(found, wide=wide)
    width = None if wide else output_width()
    for story in stories:
        print()
        for line in story_lines(story):
            for part in wrapped(line, width):
                print(part)
    if not stories:
        note(f"no rebalance of group {group} since the daemon started")


def story_lines(story: Row) -> list[str]:
    """Describes a rebalance: its time and cause, then its steps with the time since its start."""
    lines = [f"{show_time(story['started_ms'])}  {story['sentence']}"]
    for step in story["steps"]:
        after = max(0, step["timestamp_ms"] - story["started_ms"]) / 1000
        member = step["member_id"]
        client = f" (client {step['client_id']})" if step["client_id"] else ""
        # The text of an epoch bump already names the member that caused it.
        bump = step["kind"] == EventKind.GROUP_EPOCH_BUMPED.value
        who = f"{member}{client} " if member and not bump else ""
        lines.append(f"  +{after:.3f} s: {who}{step['text']}")
    return lines
