"""The kinds of paths of the admin port, and how many requests for each are answered at a time."""

from __future__ import annotations

CONTROL, ACTIONS = "control", "actions"
PROBES, METRICS, PAGES, MOVES = "probes", "metrics", "pages", "moves"
FILES, STREAMS = "files", "streams"

PLACES = {
    PROBES: 32,
    METRICS: 8,
    PAGES: 8,
    MOVES: 2,
    FILES: 16,
    STREAMS: 128,
    CONTROL: 64,
    ACTIONS: 4,
}
"""For `MOVES` the log of a shard is read, which takes seconds: with places among the `PAGES` they
would keep all other pages waiting."""

_KINDS = {
    "healthz": PROBES,
    "readyz": PROBES,
    "metrics": METRICS,
    "console": FILES,
    "live": STREAMS,
}


def kind_of(path: tuple[str, ...]) -> str:
    """The kind of a path that changes nothing."""
    if path[:1] == ("groups",) and path[2:] == ("moves",):
        return MOVES
    return _KINDS.get(path[0], PAGES) if path else PAGES
