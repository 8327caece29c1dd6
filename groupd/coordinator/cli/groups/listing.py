"""`groupd groups list`: all groups, of a running daemon or of any Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groupd.coordinator.cli.admin_port import AdminPort
from groupd.coordinator.cli.groups.admin import get_pages, nodes_of
from groupd.coordinator.cli.groups.flags import GroupsWanted
from groupd.coordinator.cli.groups.from_kafka import group_rows
from groupd.coordinator.cli.groups.past import asking, now_ms
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import ago, judged, or_dash, table_of
from groupd.coordinator.cli.kafka.client_config import open_cluster

BASIC = ("group_id", "type", "state")
Row = Mapping[str, Any]


def of_daemon(admin: AdminPort) -> list[Row]:
    """The rows of all nodes of a cluster."""
    return [
        group for node in nodes_of(admin) for page in get_pages(node, "/groups") for group in page
    ]


def of_cluster(bootstrap: str, command_config: Path | None, *, lag: bool) -> list[Row]:
    """The rows of all brokers. Raises UsageError."""
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        return [*group_rows(cluster, lag=lag)]


def show_groups(rows: Iterable[Row], wanted: GroupsWanted, *, as_json: bool, wide: bool) -> None:
    """Print one row for each group."""
    found = wanted.of(rows)
    if as_json:
        for row in found:
            json_line(row if wanted.lag else {name: row[name] for name in BASIC})
        return
    at_ms = now_ms()
    shown = [group_cells(row, at_ms) if wanted.lag else _basic(row) for row in found]
    table_of(shown, wide=wide, empty=BASIC[:1])


def group_cells(row: Row, now_ms: int) -> dict[str, object]:
    """What people see of a group, by column; "-" for what is not known."""
    last = row.get("last_rebalance")
    return {
        **_basic(row),
        "members": or_dash(row.get("members")),
        "lag": or_dash(row.get("lag")),
        **judged(row),
        "last rebalance": "-" if last is None else ago(last["timestamp_ms"], now_ms),
        "cause": "-" if last is None else or_dash(last["cause"]),
    }


def _basic(row: Row) -> dict[str, object]:
    return {name: or_dash(row[name]) for name in BASIC}
