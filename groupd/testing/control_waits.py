"""`POST /control/groups/{group}/wait`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.testing.control_schema import BadInput, Schema
from groupd.testing.operations import Operations

TIMEOUT_MAX_S = 60

_TEXT: Schema = {"type": "string", "maxLength": 1024}
_NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}

TIMEOUT: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": TIMEOUT_MAX_S,
    "description": "seconds of real time; 10 by default",
}

KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stable": ((), ("members",)),
    "members": (("count",), ()),
    "epoch": (("member", "epoch"), ()),
    "released": (("topic", "partition"), ("member",)),
    "owned": (("topic", "partition"), ()),
    "committed": (("topic", "partition", "offset"), ()),
    "rebalances": (("count",), ()),
    "lag": ((), ("at_most",)),
}
"""The arguments that each wait needs, and those that it may have."""

WAIT_BODY: Schema = {
    "type": "object",
    "properties": {
        "until": {"type": "string", "enum": list(KINDS)},
        "members": _NUMBER,
        "count": _NUMBER,
        "member": _TEXT,
        "epoch": _NUMBER,
        "topic": _TEXT,
        "partition": _NUMBER,
        "offset": _NUMBER,
        "at_most": {**_NUMBER, "description": "records not yet committed; 0 by default"},
        "timeout": TIMEOUT,
    },
    "required": ["until"],
    "additionalProperties": False,
}


async def wait(ops: Operations, args: dict[str, Any]) -> Any:
    """The result of the wait with that name. Raises BadInput for arguments that do not fit it."""
    given = dict(args)
    kind = given.pop("until")
    needed, allowed = KINDS[kind]
    missing = [name for name in needed if name not in given]
    if missing:
        raise BadInput(f"waiting until {kind} needs {', '.join(missing)}")
    unknown = given.keys() - {"group", "timeout", *needed, *allowed}
    if unknown:
        raise BadInput(f"waiting until {kind} has no {', '.join(sorted(unknown))}")
    found = await getattr(ops, f"wait_{kind}")(**given)
    return placed_numbers("lag", found) if kind == "lag" else found


def placed_numbers(name: str, found: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    """A number for each partition, as JSON: an array of objects with the topic, the partition and
    the number under `name`."""
    return [{"topic": topic, "partition": at, name: n} for (topic, at), n in found.items()]
