"""The commands of `groupd cluster`: flags and help. The code that does the work is imported when a
command runs, so that other commands do not wait for it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from groupd.coordinator.cli.admin_port import (
    DEFAULT_ADMIN,
    Admin,
    AdminCaFile,
    AdminTokenFile,
    admin_port,
)
from groupd.coordinator.cli.kafka.flags import Format, Wide, is_json

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
    from groupd.coordinator.cli import cluster_work

    port = admin_port(admin, admin_token_file, admin_ca_file)
    cluster_work.describe(port, as_json=is_json(output), wide=wide)


@app.command()
def drain(
    node: NodeId,
    admin: Admin = DEFAULT_ADMIN,
    wait: WaitFlag = False,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Hand over what a node serves to the others; it stays in the cluster and gets nothing new."""
    from groupd.coordinator.cli import cluster_work

    cluster_work.drain(admin_port(admin, admin_token_file, admin_ca_file), node, wait=wait)


@app.command()
def resume(
    node: NodeId,
    admin: Admin = DEFAULT_ADMIN,
    admin_token_file: AdminTokenFile = None,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Let a drained node serve its share again."""
    from groupd.coordinator.cli import cluster_work

    cluster_work.resume(admin_port(admin, admin_token_file, admin_ca_file), node)
