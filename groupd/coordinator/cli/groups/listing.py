"""`groupd groups list` and `groupd groups describe`: all groups, or one, as a running daemon's
admin port or any Kafka cluster shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groupd.coordinator.admin.http_messages import path_of
from groupd.coordinator.cli.admin_port import AdminPort, get, get_pages, nodes_of
from groupd.coordinator.cli.groups.flags import GroupsWanted, Row
from groupd.coordinator.cli.groups.share import (
    given_up_lines,
    poison_lines,
    range_cells,
    share_cells,
    share_page,
    share_waits,
)
from groupd.coordinator.cli.kafka.flags import asked_cluster
from groupd.coordinator.cli.parse import now_ms
from groupd.coordinator.cli.tables import json_line, or_dash, output_width, table_of, wrapped
from groupd.coordinator.plain_text import span_text

NOT_KNOWN = "not known yet"
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


def group_of_daemon(admin: AdminPort, group: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the group with its judgement, and its offsets; all pages of both. A share group has
    its records in `share`."""
    path = path_of(("groups", group))
    found = {**whole_group(admin, path), **judgement_of(admin, path)}
    found |= share_page(admin, path, found)
    return found, _whole_offsets(admin, f"{path}/offsets")


def group_of_cluster(
    bootstrap: str, command_config: Path | None, group: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same for a group of any Kafka cluster. Raises UsageError."""
    # Imported here, because most commands ask a daemon.
    from groupd.coordinator.cli.groups.from_kafka import group_page

    with asked_cluster(bootstrap, command_config) as cluster:
        return group_page(cluster, group, now_ms())


def show_group(found: Row, offsets: Row, *, as_json: bool, wide: bool) -> None:
    """Prints the group's facts, members, partitions with offsets, and what it waits for."""
    if as_json:
        json_line({**found, "offsets": offsets})
        return
    for name in FACTS:
        if found.get(name) not in (None, ""):
            print(f"{name}: {found[name]}")
    print_judgement(found, wide=wide)
    for name, value in found.get("config_overrides", {}).items():
        print(f"config: {name}={value}")
    lag = {member["member_id"]: member for member in offsets["members"]}
    at_ms = offsets["now_ms"]
    _section("members", [member_cells(one, lag, at_ms) for one in found["members"]], wide)
    _section("partitions", [_partition(row, at_ms) for row in offsets["partitions"]], wide)
    share = found.get("share")
    if share is not None:
        _section("held records", range_cells(share), wide)
        _section("share-partitions", [share_cells(row) for row in share["partitions"]], wide)
    print_waits(found, wide=wide)
    print_silent(found, wide=wide)
    if found.get("left_out"):
        print(f"\ntoo long to be shown whole: {', '.join(found['left_out'])}")


def judgement_of(admin: AdminPort, path: str) -> dict[str, Any]:
    """Returns the judgement on the group by the last round over the lag, the reason, and the
    members that commit nothing."""
    lag = get(admin, f"{path}/lag")
    return {name: lag[name] for name in ("judgement", "reason", "silent", "silent_count")}


def print_judgement(found: Row, *, wide: bool) -> None:
    if "judgement" not in found:
        return  # Kafka has no judgements
    told = found["judgement"] or NOT_KNOWN
    why = f" ({found['reason']})" if found["reason"] else ""
    for part in wrapped(f"judgement: {told}{why}", None if wide else output_width()):
        print(part)


def print_waits(found: Row, *, wide: bool) -> None:
    """Prints what the group waits for; of a share group also the records that were delivered again
    and again, and those that were given up."""
    waits, share = [wait_text(entry) for entry in found.get("blocked", ())], found.get("share")
    if share is None:
        print_lines("waits for", waits, wide=wide)
        return
    print_lines("waits for", [*waits, *share_waits(share)], wide=wide)
    print_lines("delivered again and again", poison_lines(share), wide=wide)
    print_lines("given up", given_up_lines(share), wide=wide)


def print_silent(found: Row, *, wide: bool) -> None:
    """Prints the members that commit nothing."""
    silent = found.get("silent", ())
    lines = [f"{one['text']}: does it poll?" for one in silent]
    more = found.get("silent_count", 0) - len(silent)
    print_lines("look at", lines + [f"... and {more} more"] * (more > 0), wide=wide)


def whole_group(admin: AdminPort, path: str) -> dict[str, Any]:
    """Returns the group with the members of all pages. Other lists may be incomplete."""
    found, *pages = get_pages(admin, path)
    for page in pages:
        found["members"] += page["members"]
    cut = [name for name in found.pop("left_out", ()) if name != "members"]
    return {**found, **({"left_out": cut} if cut else {})}


def _whole_offsets(admin: AdminPort, path: str) -> dict[str, Any]:
    partitions: list[Row] = []
    members: dict[str, dict[str, Any]] = {}
    for page in get_pages(admin, path):
        partitions += page["partitions"]
        join_members(members, page)
    ordered = [members[member_id] for member_id in sorted(members)]
    return {**page, "partitions": partitions, "members": ordered}


def join_members(into: dict[str, dict[str, Any]], page: Mapping[str, Any]) -> None:
    """Add the members of one page of offsets, with their lag, to those of the pages before it, by
    id: a member's partitions may be on several pages."""
    for member in page["members"]:
        known = into.setdefault(member["member_id"], member)
        if known is member:
            continue
        known["partitions"] += member["partitions"]
        for name, join in (("lag", sum), ("last_commit_ms", max)):
            values = [one[name] for one in (known, member) if one[name] is not None]
            known[name] = join(values) if values else None


def _section(title: str, rows: list[dict[str, object]], wide: bool) -> None:
    if rows:
        print(f"\n{title}:")
        table_of(rows, wide=wide)


def print_lines(title: str, lines: list[str], *, wide: bool) -> None:
    """Prints a title and the lines below it, unless there are none."""
    if lines:
        print(f"\n{title}:")
        for line in lines:
            for part in wrapped(f"  {line}", None if wide else output_width()):
                print(part)


def ago(time_ms: int | None, now_ms: int) -> str:
    return "-" if time_ms is None else f"{span_text(max(0, now_ms - time_ms))} ago"


def lasting(seconds: float | None) -> str:
    """A length of time for people."""
    return "-" if seconds is None else span_text(int(seconds * 1000))


def judgement_cells(row: Mapping[str, Any]) -> dict[str, object]:
    """The cells of the oldest record's waiting time and of the judgement, by column. If the admin
    port does not know a value yet, the cell says so. It is "-" if Kafka does not tell it, or if no
    offset is committed."""
    if "judgement" not in row or row.get("committed_offset", 0) is None:
        return {"lag time": "-", "judgement": "-"}
    age = row["lag_seconds"]
    return {
        "lag time": NOT_KNOWN if row["lag"] and age is None else lasting(age),
        "judgement": row["judgement"] or NOT_KNOWN,
    }


def member_cells(member: Row, lag: Mapping[str, Row], at_ms: int) -> dict[str, object]:
    """The cells of a member, by column. `lag`: facts about members' offsets, by member id."""
    offsets = lag.get(member["member_id"], {})
    return {
        "member": member["member_id"],
        "instance": or_dash(member.get("instance_id")),
        "client": or_dash(member["client_id"]),
        "host": or_dash(member["client_host"]),
        "state": member["state"] if "state" in member else _parked(member),
        "epoch": or_dash(member.get("member_epoch")),
        "owns": offsets.get("partitions", 0),
        "lag": or_dash(offsets.get("lag")),
        "last commit": ago(offsets.get("last_commit_ms"), at_ms),
    }


def _parked(member: Row) -> str:
    """The request in which a member of a classic group waits, "-" if it does not wait."""
    if member.get("join_parked"):
        return "in JoinGroup"
    return "in SyncGroup" if member.get("sync_parked") else "-"


def _partition(row: Row, at_ms: int) -> dict[str, object]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "committed": or_dash(row["committed_offset"]),
        "end": or_dash(row["end_offset"]),
        "lag": or_dash(row["lag"]),
        **judgement_cells(row),
        "last commit": ago(row["last_commit_ms"], at_ms),
        "member": or_dash(row["member_id"]),
        "client": or_dash(row["client_id"]),
        "host": or_dash(row["client_host"]),
        "transaction": "open" if row["in_transaction"] else "-",
    }


def wait_text(entry: Row) -> str:
    """Describes an entry of `blocked`."""
    who = f"{entry['member_id']}: " if entry["member_id"] else ""
    left_ms = entry["in_ms"]
    return f"{who}{entry['why']}" + ("" if left_ms is None else f" ({span_text(left_ms)} left)")


BASIC = ("group_id", "type", "state")


def of_daemon(admin: AdminPort) -> list[Row]:
    """Returns the rows of all nodes of a cluster."""
    return [
        group for node in nodes_of(admin) for page in get_pages(node, "/groups") for group in page
    ]


def of_cluster(bootstrap: str, command_config: Path | None, *, lag: bool) -> list[Row]:
    """Returns the rows of all brokers. Raises UsageError."""
    from groupd.coordinator.cli.groups.from_kafka import group_rows

    with asked_cluster(bootstrap, command_config) as cluster:
        return [*group_rows(cluster, lag=lag)]


def show_groups(rows: Iterable[Row], wanted: GroupsWanted, *, as_json: bool, wide: bool) -> None:
    """Prints one row for each group."""
    found = wanted.of(rows)
    if as_json:
        for row in found:
            json_line(row if wanted.lag else {name: row[name] for name in BASIC})
        return
    at_ms = now_ms()
    shown = [group_cells(row, at_ms) if wanted.lag else _basic(row) for row in found]
    table_of(shown, wide=wide, empty=BASIC[:1])


def group_cells(row: Row, now_ms: int) -> dict[str, object]:
    """The cells of a group, by column; "-" if a value is not known."""
    last = row.get("last_rebalance")
    return {
        **_basic(row),
        "members": or_dash(row.get("members")),
        "lag": or_dash(row.get("lag")),
        **judgement_cells(row),
        "last rebalance": "-" if last is None else ago(last["timestamp_ms"], now_ms),
        "cause": "-" if last is None else or_dash(last["cause"]),
    }


def _basic(row: Row) -> dict[str, object]:
    return {name: or_dash(row[name]) for name in BASIC}
