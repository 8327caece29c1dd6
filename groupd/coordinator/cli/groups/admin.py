"""Requests of `groupd groups` to the admin port of a running daemon."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from groupd.coordinator.cli.admin_port import TIMEOUT_S, AdminPort, NoAnswer
from groupd.coordinator.cli.groups.past import fail

NEXT = re.compile(r'<(/[^>]*)>; rel="next"')


def get(admin: AdminPort, path: str) -> Any:
    """Returns the daemon's answer as plain data. If there is none, or it is an error, the command
    prints one line and ends with exit code 1."""
    return next(get_pages(admin, path))


def get_pages(admin: AdminPort, path: str) -> Iterator[Any]:
    """As `get`, for an answer that may have several pages: yields them."""
    try:
        yield from pages(admin, path)
    except NoAnswer as error:
        fail(str(error))


def pages(admin: AdminPort, path: str, timeout_s: float = TIMEOUT_S) -> Iterator[Any]:
    """As `get_pages`, for a command that goes on without an answer. Raises NoAnswer."""
    following: str | None = path
    while following is not None:
        page, following = _page(admin, following, timeout_s)
        yield page


def nodes_of(admin: AdminPort) -> list[AdminPort]:
    """The admin ports of all nodes of the cluster; only `admin` itself if its daemon is in no
    cluster. If other machines cannot reach a node's admin port, a line is printed on stderr."""
    try:
        reply = admin.get("/cluster")
    except NoAnswer as error:
        fail(str(error))
    if reply.status != 200:
        return [admin]
    ports = []
    for node in json.loads(reply.body)["nodes"]:
        url = urlsplit(node["admin"])
        if url.netloc:
            ports.append(replace(admin, address=url.netloc))
        else:
            print(f"node {node['node']} is not asked: its admin port is local", file=sys.stderr)
    return ports


def _page(admin: AdminPort, path: str, timeout_s: float) -> tuple[Any, str | None]:
    """Returns the answer, and the path of the next page. Raises NoAnswer."""
    reply = admin.get(path, timeout_s)
    if reply.status != 200:
        raise NoAnswer(reply.body.strip(), reply.status)
    link = NEXT.fullmatch(reply.headers.get("Link", ""))
    try:
        return json.loads(reply.body), None if link is None else link[1]
    except ValueError:
        raise NoAnswer(
            f"{admin.address} does not answer as groupd does: is it its admin port?"
        ) from None
