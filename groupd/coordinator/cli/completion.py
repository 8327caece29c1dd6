"""What shells are told to complete: fixed words, and the groups of a running daemon.

A shell asks while somebody types: the answer is short, comes soon, and is empty where there is no
daemon or it does not let the command in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlencode

import typer

from groupd.coordinator.cli.admin_port import DEFAULT_ADMIN, NoAnswer, admin_port
from groupd.coordinator.cli.parse import UsageError

ANSWER_S = 0.5
GROUPS_MAX = 200
"""The most groups that are offered."""


def words(*choices: str) -> Callable[[str], list[str]]:
    """Completes one of these words."""

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The groups of the daemon whose admin port the command line names."""
    given = context.params
    try:
        port = admin_port(
            given.get("admin") or DEFAULT_ADMIN,
            given.get("admin_token_file"),
            given.get("admin_ca_file"),
        )
        # Ids come in order, and all that begin so come behind the beginning itself.
        query = {"limit": GROUPS_MAX, **({"after": incomplete} if incomplete else {})}
        reply = port.get(f"/groups?{urlencode(query)}", ANSWER_S)
        rows = json.loads(reply.body) if reply.status == 200 else []
        names = [row["group_id"] for row in rows]
    except (NoAnswer, UsageError, ValueError, TypeError, KeyError):
        return []
    return [name for name in names if name.startswith(incomplete)]
