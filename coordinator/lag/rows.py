"""The lag of groups, partitions and members as rows of pages: what the group's shard knows about
offsets, combined with the end offsets of the logs, which another process may have."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.inspection import group_summary
from groupd.coordinator.core.slices import chunks
from groupd.coordinator.core.types import EventKind
from groupd.coordinator.lag.judgement import records_behind
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.runtime.timeline import Timeline

SILENT_MS = 60_000
"""A member with lag is pointed out if it has committed nothing for this long."""

Ends = Callable[[str, int], tuple[int, int] | None]
"""(topic, partition) -> start and end of its log; None = not known."""


class OwnedSince:
    """When members were last given partitions, as a timeline tells. `events`: those of one group,
    oldest first."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self._everybody: int | None = None
        self._by_member: dict[str, int] = {}
        for event in events:
            if event["event"] == EventKind.PARTITIONS_ASSIGNED.value:
                self._by_member[event["member_id"]] = event["timestamp_ms"]
            elif event["event"] == EventKind.REBALANCE_COMPLETED.value:
                self._everybody = event["timestamp_ms"]
                self._by_member.clear()

    def of(self, member_id: str) -> int | None:
        """The time for one member, as wall-clock time in ms; None = not known."""
        return self._by_member.get(member_id, self._everybody)


def group_row(group: Group, watch: LagWatch, timeline: Timeline) -> dict[str, Any]:
    """A group in a list: what it is, how far it is behind as of the last round of `watch`, and its
    last rebalance. `lag`, `lag_seconds` and `judgement` are None where nothing is known."""
    known = watch.groups.get(group.group_id)
    return {
        **group_summary(group),
        "members": len(group.members),
        "lag": None if known is None else known.totals.lag,
        "lag_seconds": None if known is None else seconds(known.totals.age_ms),
        "judgement": None if known is None else known.totals.judgement.value,
        "last_rebalance": timeline.last_rebalance(group.group_id),
    }


def trend_of(group_id: str, watch: LagWatch) -> list[int | None] | None:
    """The lag of a group over the last hour, two minutes in a number; None: there was none."""
    known = watch.groups.get(group_id)
    return (
        None
        if known is None or known.trend.flat
        else known.trend.minutes(watch.round_at.monotonic_ms, 2)
    )


def seconds(age_ms: int | None) -> float | None:
    """An age as a page shows it."""
    return None if age_ms is None else round(age_ms / 1000, 1)


def add_judgement(shown: dict[str, Any], watch: LagWatch) -> Generator[None, None, None]:
    """Adds what the last round of `watch` has found to each partition: `lag_seconds`, the age of
    its first unread record, and `judgement`. None = not known; `lag_seconds` also without lag."""
    group = watch.groups.get(shown["group_id"])
    for rows in chunks(shown["partitions"]):
        for row in rows:
            place = row["topic"], row["partition"]
            known = None if group is None else group.partition(*place)
            row["lag_seconds"] = None if known is None else seconds(known.age_ms)
            row["judgement"] = None if known is None else known.judgement.value
        yield


def add_lag(shown: dict[str, Any], ends: Ends) -> Generator[None, None, None]:
    """Adds the lag to what `offsets_steps` has found. Each partition gets `end_offset` and `lag`:
    the records that are not committed yet. Where `ends` knows nothing, what is there already stays.
    Each member gets `lag`, that of the partitions that it owns; `not_committing_ms`: for how long a
    member with lag has committed nothing while owning what it has; and `silent`: whether that is
    long enough to ask why. None = not known; a partition for which nothing is committed has no lag,
    because where its consumer reads is not known. `not_committing_ms` is also None without lag."""
    lags: dict[str, int] = {}
    for rows in chunks(shown["partitions"]):
        for row in rows:
            found = ends(row["topic"], row["partition"])
            if found is None:
                row.setdefault("end_offset", None)
                row.setdefault("lag", None)
            else:
                position, (start, end) = row["committed_offset"], found
                row["end_offset"] = end
                row["lag"] = None if position is None else records_behind(position, start, end)
            if row["lag"] is not None and row["member_id"] is not None:
                lags[row["member_id"]] = lags.get(row["member_id"], 0) + row["lag"]
        yield
    for members in chunks(shown["members"]):
        for member in members:
            member["lag"] = lags.get(member["member_id"])
            _add_silence(member, shown["now_ms"])
        yield


def ends_of(watch: LagWatch, now: Ends | None = None) -> Ends:
    """The ends of logs: where `now` knows none, because no client has used the log or another node
    leads it, those of the last round."""

    def ends(topic: str, number: int) -> tuple[int, int] | None:
        known = None if now is None else now(topic, number)
        if known is None and (bounds := watch.bounds.get(topic, {}).get(number)) is not None:
            known = bounds.start, bounds.end
        return known

    return ends


def _add_silence(member: dict[str, Any], now_ms: int) -> None:
    times = (member["last_commit_ms"], member["owned_since_ms"])
    since = [time for time in times if time is not None]
    silent_ms = max(0, now_ms - max(since)) if member["lag"] and since else None
    member["not_committing_ms"] = silent_ms
    member["silent"] = silent_ms is not None and silent_ms >= SILENT_MS


def join_members(into: dict[str, dict[str, Any]], page: Mapping[str, Any]) -> None:
    """Adds the members of one page of offsets, with their lag, to those of the pages before it, by
    id: a member's partitions may stand on several pages."""
    for member in page["members"]:
        known = into.setdefault(member["member_id"], member)
        if known is member:
            continue
        known["partitions"] += member["partitions"]
        for name, join in (("lag", sum), ("last_commit_ms", max)):
            values = [one[name] for one in (known, member) if one[name] is not None]
            known[name] = join(values) if values else None
        _add_silence(known, page["now_ms"])
