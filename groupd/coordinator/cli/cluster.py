"""`groupd cluster`: the nodes of a cluster, as the admin port of one of them tells."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

import typer

from groupd.coordinator.cli.admin_port import (
    DEFAULT_ADMIN,
    Admin,
    AdminCaFile,
    AdminPort,
    AdminTokenFile,
    NoAnswer,
    admin_port,
    pages,
)
from groupd.coordinator.cli.command_errors import fail
from groupd.coordinator.cli.kafka.flags import Format, Wide, is_json
from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.cli.tables import json_line, table

POLL_S = 0.1
WAIT_S = 60.0
"""How long `drain --wait` waits for the node to give up all units."""

COLUMNS = ("node", "state", "lease", "groups", "transactions", "partitions", "address", "version")

app = typer.Typer(
    help="The nodes of a cluster, and which of them serves what. Ask any node.",
    no_args_is_help=True,
)

NodeId = Annotated[int, typer.Argument(metavar="NODE", help="The node's id.", min=0)]
WaitFlag = Annotated[
    bool, typer.Option("--wait", help="Return when the node has given up everything.")
]


@app.command()
def describe(
    admin: Admin = DEFAULT_ADMIN,
    output: Format = "table",
    wide: Wide = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Show the nodes, their leases, and how much each of them serves."""
    cluster = _cluster(admin_port(admin, admin_token_file, admin_ca_file))
    if is_json(output):
        json_line(cluster)
        return
    table(COLUMNS, [_row(node) for node in cluster["nodes"]], wide=wide)
    waiting = cluster["units_without_owner"]
    print(f"\nunits without an owner: {waiting}")
    print(f"catalogue version: {cluster['catalogue']}; asked: node {cluster['node']}")


@app.command()
def drain(
    node: NodeId,
    admin: Admin = DEFAULT_ADMIN,
    wait: WaitFlag = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Hand over what a node serves to the others; it stays in the cluster and gets nothing new."""
    port = admin_port(admin, admin_token_file, admin_ca_file)
    _act(port, "drain", node)
    until = time.monotonic() + WAIT_S
    while wait and (left := _owned(port, node)):
        if time.monotonic() > until:
            fail(f"node {node} still serves {left} units after {WAIT_S:.0f} s")
        time.sleep(POLL_S)


@app.command()
def resume(
    node: NodeId,
    admin: Admin = DEFAULT_ADMIN,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Let a drained node serve its share again."""
    _act(admin_port(admin, admin_token_file, admin_ca_file), "resume", node)


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
