"""`groupd health`: asks a running daemon whether it is ready (for health checks of containers)."""

from __future__ import annotations

import http.client
import sys
from typing import Annotated

import typer

from groupd.coordinator.cli.parse import real_port


def health(
    admin: Annotated[
        str, typer.Option(help="Admin address of the daemon, HOST:PORT.")
    ] = "127.0.0.1:9644",
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds to wait for the answer.")
    ] = 3.0,
) -> None:
    """Exit 0 when the daemon at --admin is ready, 1 when it is not."""
    host, port = real_port(admin, "--admin")
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", "/readyz")
        reply = connection.getresponse()
        body = reply.read().decode(errors="replace").strip()
    except OSError as error:
        print(f"groupd: no answer from {admin}: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except http.client.HTTPException:
        print(f"groupd: {admin} does not answer in HTTP: is it the admin port?", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        connection.close()
    print(body)
    if reply.status != 200:
        raise typer.Exit(1)
