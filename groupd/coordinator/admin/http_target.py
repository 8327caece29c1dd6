"""Paths of the admin port: their segments, percent-encoded where they have to be.

Any text may be the id of a group, but `.`, `..` and the empty one cannot be a segment: clients take
such segments out of a path before they send it. So a group may also be asked for below
`/groups-named`, with an equals sign before its id: `/groups-named/=../offsets` are the offsets of
the group `..`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote


def segments_of(path: str) -> tuple[str, ...]:
    """The decoded segments, as if every group had been asked for below `/groups`."""
    match tuple(unquote(part) for part in path.split("/") if part):
        case ("groups-named", group_id, *rest) if group_id.startswith("="):
            return ("groups", group_id[1:], *rest)
        case ("live", "groups-named", group_id) if group_id.startswith("="):
            return ("live", "groups", group_id[1:])
        case found:
            return found


def path_of(segments: tuple[str, ...]) -> str:
    """The path with these segments, which starts with a slash."""
    match segments:
        case ("groups", "" | "." | ".." as group_id, *rest):
            return "/".join(
                ("", "groups-named", f"={group_id}", *(quote(one, safe="") for one in rest))
            )
        case _:
            return "/" + "/".join(quote(one, safe="") for one in segments)
