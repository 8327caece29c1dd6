"""The lag of the members of a group: what the group's shard knows about offsets, combined with the
end offsets of the logs, which another process may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from groupd.coordinator.core.types import EventKind

Ends = Callable[[str, int], tuple[int, int] | None]
"""(topic, partition) -> start and end of its log; None = not known."""


def owned_since(events: Iterable[Mapping[str, Any]], members: Iterable[str]) -> dict[str, int]:
    """By member id, the wall-clock time in ms of the last event that gave the member partitions.
    `events`: a timeline."""
    found: dict[str, int] = {}
    everybody = list(members)
    for event in events:
        if event["event"] == EventKind.PARTITIONS_ASSIGNED.value:
            found[event["member_id"]] = event["timestamp_ms"]
        elif event["event"] == EventKind.REBALANCE_COMPLETED.value:
            found.update(dict.fromkeys(everybody, event["timestamp_ms"]))
    return found


def add_lag(shown: dict[str, Any], ends: Ends) -> None:
    """Adds the lag to what `inspect_offsets` returns. Each partition gets `end_offset` and `lag`
    (the records that are not committed yet; all records there are if no offset is committed). Each
    member gets `lag` and `not_committing_ms`: for how long a member with lag has committed nothing
    while owning what it has. None = not known; `not_committing_ms` is also None without lag."""
    lags: dict[str, int] = {}
    for row in shown["partitions"]:
        found = ends(row["topic"], row["partition"])
        start, end = (None, None) if found is None else found
        position = row["committed_offset"]
        row["end_offset"] = end
        row["lag"] = None
        if start is not None and end is not None:
            row["lag"] = max(0, end - (start if position is None else position))
            if row["member_id"] is not None:
                lags[row["member_id"]] = lags.get(row["member_id"], 0) + row["lag"]
    for member in shown["members"]:
        lag = member["lag"] = lags.get(member["member_id"])
        times = (member["last_commit_ms"], member["owned_since_ms"])
        since = [time for time in times if time is not None]
        member["not_committing_ms"] = (
            max(0, shown["now_ms"] - max(since)) if lag and since else None
        )
