"""The work of the commands of `groupd cluster`, which ask the admin port of a node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from groupd.coordinator.cli.admin_port import AdminPort, NoAnswer
from groupd.coordinator.cli.groups.admin import pages
from groupd.coordinator.cli.groups.past import fail
from groupd.coordinator.cli.groups.tables import json_line, table
from groupd.coordinator.cli.parse import UsageError

POLL_S = 0.1
WAIT_S = 60.0
"""How long `drain --wait` waits for the node to give up all units."""

COLUMNS = ("node", "state", "lease", "groups", "transactions", "partitions", "address", "version")


def describe(admin: AdminPort, *, as_json: bool, wide: bool) -> None:
    """Prints a row for each node, and how many units have no owner."""
    cluster = _cluster(admin)
    if as_json:
        json_line(cluster)
        return
    table(COLUMNS, [_row(node) for node in cluster["nodes"]], wide=wide)
    waiting = cluster["units_without_owner"]
    print(f"\nunits without an owner: {waiting}")
    print(f"catalogue version: {cluster['catalogue']}; asked: node {cluster['node']}")


def _cluster(admin: AdminPort) -> Any:
    """Returns a node's view of its cluster. Raises UsageError if the daemon is in no cluster."""
    try:
        return next(pages(admin, "/cluster"))
    except NoAnswer as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise UsageError(
                f"the daemon at {admin.address} is no node of a cluster: it was started without "
                "--cluster"
            ) from None
        fail(str(error))


def _row(node: Mapping[str, Any]) -> list[object]:
    left = node["lease_left_ms"]
    units = node["units"]
    return [
        node["node"],
        node["state"],
        "over" if left <= 0 else f"{left} ms",
        *(units[kind] for kind in ("groups", "transactions", "partitions")),
        node["address"],
        node["version"],
    ]


def drain(admin: AdminPort, node: int, *, wait: bool) -> None:
    """Asks the cluster to drain the node. `wait`: returns only when the node owns no unit any more;
    if that takes too long, the command ends with exit code 1."""
    _act(admin, "drain", node)
    until = time.monotonic() + WAIT_S
    while wait and (left := _owned(admin, node)):
        if time.monotonic() > until:
            fail(f"node {node} still serves {left} units after {WAIT_S:.0f} s")
        time.sleep(POLL_S)


def resume(admin: AdminPort, node: int) -> None:
    """Asks the cluster to give the node its share of units again."""
    _act(admin, "resume", node)


def _owned(admin: AdminPort, node: int) -> int:
    for one in _cluster(admin)["nodes"]:
        if one["node"] == node:
            return sum(one["units"].values())
    return 0


def _act(admin: AdminPort, action: str, node: int) -> None:
    try:
        reply = admin.post(f"/cluster/{action}?node={node}")
    except NoAnswer as error:
        fail(str(error))
    if reply.status != HTTPStatus.OK:
        _cluster(admin)
        fail(reply.body.strip())
    print(reply.body.strip())
