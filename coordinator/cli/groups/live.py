"""`groupd groups list` and `describe`: groups as a running daemon's admin port shows them."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote

import typer

from coordinator.cli.groups.past import fail
from coordinator.cli.groups.show import json_line, table
from coordinator.cli.parse import real_port

TIMEOUT_S = 10.0


def list_groups(admin: str, as_json: bool) -> None:
    """One row a group."""
    groups = _get(admin, "/groups")
    if as_json:
        for group in groups:
            json_line(group)
        return
    columns = list(dict.fromkeys(key for group in groups for key in group)) or ["group_id"]
    table(columns, [[group.get(key, "-") for key in columns] for group in groups])


def describe(group: str, admin: str, as_json: bool) -> None:
    """Plain facts first, then a table for each list."""
    found = _get(admin, f"/groups/{quote(group, safe='')}")
    if as_json:
        json_line(found)
        return
    lists = {key: value for key, value in found.items() if _is_table(value)}
    for key, value in found.items():
        if key not in lists:
            typer.echo(f"{key}: {_short(value)}")
    for key, rows in lists.items():
        typer.echo(f"\n{key}:")
        # What no row has anything in would only make the table wider.
        columns = list(dict.fromkeys(name for row in rows for name in row if row[name]))
        table(columns, [[_short(row.get(name, "-")) for name in columns] for row in rows])


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _get(admin: str, path: str) -> Any:
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
    try:
        return json.loads(body)
    except ValueError:
        fail(f"{admin} does not answer as groupd does: is it its admin port?")
