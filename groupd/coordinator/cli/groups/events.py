"""`groupd groups events`: what happened in groups lately, as a running daemon remembers it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from groupd.coordinator.admin.http_messages import path_of
from groupd.coordinator.cli.admin_port import AdminPort
from groupd.coordinator.cli.groups.admin import get
from groupd.coordinator.cli.groups.past import note
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import output_width, wrapped
from groupd.coordinator.cli.times import show_time
from groupd.coordinator.plain_text import fields_text

FOLLOW_S = 1.0

Event = Mapping[str, Any]
Key = tuple[str, int, int]


def show_events(
    group: str | None, admin: AdminPort, *, follow: bool, as_json: bool, wide: bool
) -> None:
    """Print the events, oldest first. `follow`: also print new events, until the user
    interrupts."""
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
        # Events that the daemon has forgotten will not come again, so their keys need not be kept.
        shown = {_key(event) for event in events}
        sys.stdout.flush()
        time.sleep(FOLLOW_S)
    if not new:
        note("no events" if group is None else f"no events of group {group} since the start")


def _key(event: Event) -> Key:
    """Tells events apart. The sequence number alone does not: a daemon that was restarted counts
    from 0."""
    return event.get("group_id", ""), event["timestamp_ms"], event["sequence"]


def event_text(event: Event) -> str:
    """One line: the time, the group if the event names it, what happened, the member and the cause;
    then the details."""
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
