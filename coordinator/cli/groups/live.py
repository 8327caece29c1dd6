"""`groupd groups list` and `describe`: groups as a running daemon's admin port shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from groupd.coordinator.cli.admin_port import AdminPort
from groupd.coordinator.cli.groups.admin import get_pages, nodes_of
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import output_width, table, wrapped
from groupd.coordinator.plain_text import span_text
from groupd.coordinator.server.group_lag import join_members

NOT_COMMITTING_MS = 60_000
"""A member with lag is pointed out if it has committed nothing for this long."""

FACTS = (
    "group_id",
    "type",
    "state",
    "group_epoch",
    "assignment_epoch",
    "generation",
    "protocol_type",
    "protocol_name",
    "leader",
)
Shown = Mapping[str, Any]


def list_groups(admin: AdminPort, as_json: bool, wide: bool) -> None:
    """Print one row for each group, of all nodes of a cluster."""
    groups = [
        group for node in nodes_of(admin) for page in get_pages(node, "/groups") for group in page
    ]
    groups.sort(key=itemgetter("group_id"))
    if as_json:
        for group in groups:
            json_line(group)
        return
    columns = list(dict.fromkeys(key for group in groups for key in group)) or ["group_id"]
    rows = [[group.get(key, "-") for key in columns] for group in groups]
    table(columns, rows, wide=wide)


def describe(group: str, admin: AdminPort, as_json: bool, wide: bool) -> None:
    """Print the group's facts, its members, its partitions with their offsets, and what it waits
    for."""
    path = f"/groups/{quote(group, safe='')}"
    found, offsets = _whole_group(admin, path), _whole_offsets(admin, f"{path}/offsets")
    if as_json:
        json_line({**found, "offsets": offsets})
        return
    for name in FACTS:
        if found.get(name) not in (None, ""):
            print(f"{name}: {found[name]}")
    for name, value in found["config_overrides"].items():
        print(f"config: {name}={value}")
    lag = {member["member_id"]: member for member in offsets["members"]}
    now_ms = offsets["now_ms"]
    _section("members", [_member(one, lag, now_ms) for one in found["members"]], wide)
    _section("partitions", [_partition(row, now_ms) for row in offsets["partitions"]], wide)
    _lines("waits for", [_wait(entry) for entry in found["blocked"]], wide)
    _lines("look at", list(_suspects(offsets)), wide)
    if found.get("left_out"):
        print(f"\ntoo long to be shown whole: {', '.join(found['left_out'])}")


def _whole_group(admin: AdminPort, path: str) -> dict[str, Any]:
    """The group, with the members of all pages; other lists may be cut."""
    found, *pages = get_pages(admin, path)
    for page in pages:
        found["members"] += page["members"]
    cut = [name for name in found.pop("left_out", ()) if name != "members"]
    return {**found, **({"left_out": cut} if cut else {})}


def _whole_offsets(admin: AdminPort, path: str) -> dict[str, Any]:
    partitions: list[Shown] = []
    members: dict[str, dict[str, Any]] = {}
    for page in get_pages(admin, path):
        partitions += page["partitions"]
        join_members(members, page)
    ordered = [members[member_id] for member_id in sorted(members)]
    return {**page, "partitions": partitions, "members": ordered}


def _section(title: str, rows: list[dict[str, object]], wide: bool) -> None:
    """Print a table, without the columns that are empty in every row."""
    if rows:
        columns = [name for name in rows[0] if any(row[name] != "-" for row in rows)]
        print(f"\n{title}:")
        table(columns, [[row[name] for name in columns] for row in rows], wide=wide)


def _lines(title: str, lines: list[str], wide: bool) -> None:
    if lines:
        print(f"\n{title}:")
        for line in lines:
            for part in wrapped(f"  {line}", None if wide else output_width()):
                print(part)


def _member(member: Shown, lag: Mapping[str, Shown], now_ms: int) -> dict[str, object]:
    offsets = lag.get(member["member_id"], {})
    return {
        "member": member["member_id"],
        "instance": _or_dash(member["instance_id"]),
        "client": _or_dash(member["client_id"]),
        "host": _or_dash(member["client_host"]),
        "state": member["state"] if "state" in member else _parked(member),
        "epoch": _or_dash(member.get("member_epoch")),
        "owns": offsets.get("partitions", 0),
        "lag": _or_dash(offsets.get("lag")),
        "last commit": _ago(offsets.get("last_commit_ms"), now_ms),
    }


def _parked(member: Shown) -> str:
    """What a member of a classic group waits for."""
    if member["join_parked"]:
        return "in JoinGroup"
    return "in SyncGroup" if member["sync_parked"] else "-"


def _partition(row: Shown, now_ms: int) -> dict[str, object]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "committed": _or_dash(row["committed_offset"]),
        "end": _or_dash(row["end_offset"]),
        "lag": _or_dash(row["lag"]),
        "last commit": _ago(row["last_commit_ms"], now_ms),
        "member": _or_dash(row["member_id"]),
        "client": _or_dash(row["client_id"]),
        "host": _or_dash(row["client_host"]),
        "transaction": "open" if row["in_transaction"] else "-",
    }


def _wait(entry: Shown) -> str:
    who = f"{entry['member_id']}: " if entry["member_id"] else ""
    left_ms = entry["in_ms"]
    return f"{who}{entry['why']}" + ("" if left_ms is None else f" ({span_text(left_ms)} left)")


def _suspects(offsets: Shown) -> Iterator[str]:
    for member in offsets["members"]:
        silent_ms = member["not_committing_ms"]
        if silent_ms is not None and silent_ms >= NOT_COMMITTING_MS:
            records = "1 record waits" if member["lag"] == 1 else f"{member['lag']} records wait"
            yield (
                f"{member['member_id']} (client {member['client_id']} at {member['client_host']}) "
                f"is in the group, but has committed nothing for {span_text(silent_ms)}, although "
                f"{records}: does it poll?"
            )


def _ago(time_ms: int | None, now_ms: int) -> str:
    return "-" if time_ms is None else f"{span_text(max(0, now_ms - time_ms))} ago"


def _or_dash(value: object) -> object:
    if value is None or value == "":
        return "-"
    return value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)
