"""`groupd groups why`: what started a group's last rebalances, and how each went on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.coordinator.admin.http_messages import path_of
from groupd.coordinator.cli.admin_port import AdminPort
from groupd.coordinator.cli.groups.admin import get
from groupd.coordinator.cli.groups.live import (
    judgement_of,
    print_judgement,
    print_lines,
    wait_text,
    whole_group,
)
from groupd.coordinator.cli.groups.past import note
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import output_width, wrapped
from groupd.coordinator.cli.times import show_time
from groupd.coordinator.core.types import EventKind
from groupd.coordinator.history.rebalances import rebalances

Shown = Mapping[str, Any]


def why(group: str, last: int, admin: AdminPort, *, as_json: bool, wide: bool) -> None:
    """Print how the group is judged, what it waits for now, and its last rebalances, newest
    first."""
    path = path_of(("groups", group))
    found = whole_group(admin, path)
    clients = {one["member_id"]: one["client_id"] for one in found["members"]}
    events = get(admin, f"{path}/events")
    stories = rebalances(events, state=found["state"], clients=clients)[:last]
    if as_json:
        for story in stories:
            json_line({"group_id": group, **story})
        return
    print(f"{group}: {found['state']}")
    print_judgement(judgement_of(admin, path), wide=wide)
    print_lines("waits for", [wait_text(entry) for entry in found["blocked"]], wide=wide)
    width = None if wide else output_width()
    for story in stories:
        print()
        for line in story_lines(story):
            for part in wrapped(line, width):
                print(part)
    if not stories:
        note(f"no rebalance of group {group} since the daemon started")


def story_lines(story: Shown) -> list[str]:
    """A rebalance for people: when and what, then its steps with the time since its start."""
    lines = [f"{show_time(story['started_ms'])}  {story['sentence']}"]
    for step in story["steps"]:
        after = max(0, step["timestamp_ms"] - story["started_ms"]) / 1000
        member = step["member_id"]
        client = f" (client {step['client_id']})" if step["client_id"] else ""
        # The text of a bump names the member that caused it.
        bump = step["kind"] == EventKind.GROUP_EPOCH_BUMPED.value
        who = f"{member}{client} " if member and not bump else ""
        lines.append(f"  +{after:.3f} s: {who}{step['text']}")
    return lines
