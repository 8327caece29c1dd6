"""`groupd health`: asks a running daemon whether it is ready (for health checks of containers)."""

from __future__ import annotations

from typing import Annotated

import typer

from groupd.coordinator.cli.admin_port import (
    DEFAULT_ADMIN,
    Admin,
    AdminCaFile,
    NoAnswer,
    admin_port,
)
from groupd.coordinator.cli.command_errors import fail


def health(
    admin: Admin = DEFAULT_ADMIN,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds to wait for the answer.")
    ] = 3.0,
    admin_ca_file: AdminCaFile = None,
) -> None:
    """Exit 0 when the daemon at --admin is ready, 1 when it is not."""
    try:
        reply = admin_port(admin, None, admin_ca_file).get("/readyz", timeout)
    except NoAnswer as error:
        fail(str(error))
    print(reply.body.strip())
    if reply.status != 200:
        raise typer.Exit(1)
