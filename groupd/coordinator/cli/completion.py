"""Completion in shells: of fixed words, and of the groups of a running daemon.

The user is typing, so an answer must be short and come soon. It is empty if there is no daemon, or
if the daemon refuses the command's token.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import typer
from msgspec import DecodeError, json

from groupd.coordinator.cli.admin_port import DEFAULT_ADMIN, NoAnswer, admin_port
from groupd.coordinator.cli.parse import UsageError

ANSWER_S = 0.5
GROUPS_MAX = 200
"""The most groups that are offered for completion."""


def words(*choices: str) -> Callable[[str], list[str]]:
    """Returns a function that completes one of these words."""

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Completes a group of the daemon whose admin port is on the command line."""
    given = context.params
    try:
        port = admin_port(
            given.get("admin") or DEFAULT_ADMIN,
            given.get("admin_token_file"),
            given.get("admin_ca_file"),
        )
        # Ids come in order, so ids that begin with `incomplete` come right after it. (`incomplete`
        # itself is left out, and needs no completion.)
        query = {"limit": GROUPS_MAX, **({"after": incomplete} if incomplete else {})}
        reply = port.get(f"/groups?{urlencode(query)}", ANSWER_S)
        rows = json.decode(reply.body) if reply.status == 200 else []
        names = [row["group_id"] for row in rows]
    except (NoAnswer, UsageError, DecodeError, ValueError, TypeError, KeyError):
        return []
    return [name for name in names if name.startswith(incomplete)]
