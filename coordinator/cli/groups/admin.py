"""Requests to the admin port of a running daemon."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from typing import Any

from groupd.coordinator.cli.groups.past import fail
from groupd.coordinator.cli.parse import real_port

TIMEOUT_S = 10.0
NEXT = re.compile(r'<(/[^>]*)>; rel="next"')


def get(admin: str, path: str) -> Any:
    """The daemon's answer as plain data. If the daemon cannot be reached or answers with an error,
    the command prints one line and ends with exit code 1."""
    return _page(admin, path)[0]


def get_pages(admin: str, path: str) -> Iterator[Any]:
    """The same for an answer that may have several pages."""
    following: str | None = path
    while following is not None:
        page, following = _page(admin, following)
        yield page


def _page(admin: str, path: str) -> tuple[Any, str | None]:
    """The answer, and the path of the next page."""
    host, port = real_port(admin, "--admin")
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read().decode(errors="replace")
    except OSError as error:
        fail(f"no answer from {admin}: {error}")
    except http.client.HTTPException:
        fail(f"{admin} does not answer in HTTP: is it the admin port?")
    finally:
        connection.close()
    if reply.status != 200:
        fail(body.strip())
    link = NEXT.fullmatch(reply.headers.get("Link", ""))
    try:
        return json.loads(body), None if link is None else link[1]
    except ValueError:
        fail(f"{admin} does not answer as groupd does: is it its admin port?")
