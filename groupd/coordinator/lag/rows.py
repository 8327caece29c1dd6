"""The lag of groups, partitions and members as rows of pages: the offsets that the group's shard
knows, combined with the ends of the logs, which may be on other nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupd.coordinator.core.inspection import group_summary
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.lag.judgement import Judgement, records_behind

if TYPE_CHECKING:
    from groupd.coordinator.core.group import Group
    from groupd.coordinator.lag.watch import LagWatch
    from groupd.coordinator.runtime.timeline import Timeline

Ends = Callable[[str, int], tuple[int, int] | None]
"""(topic, partition) -> start and end of its log; None = not known."""


def group_row(group: Group, watch: LagWatch, timeline: Timeline) -> dict[str, Any]:
    """Returns the row of a group in a list: what it is, how far it is behind as of the last round
    of `watch`, and its last rebalance. `lag`, `lag_seconds` and `judgement` are None if they are
    not known."""
    known = watch.groups.get(group.group_id)
    return {
        **group_summary(group),
        "members": len(group.members),
        "lag": None if known is None else known.totals.lag,
        "lag_seconds": None if known is None else seconds(known.totals.age_ms),
        "judgement": None if known is None else judgement_text(known.totals.judgement),
        "last_rebalance": timeline.last_rebalance(group.group_id),
    }


def trend_of(group_id: str, watch: LagWatch) -> list[int | None] | None:
    """Returns the lag of a group over the last hour, one number for two minutes; None if there was
    none."""
    known = watch.groups.get(group_id)
    return (
        None
        if known is None or known.trend.flat
        else known.trend.minutes(watch.round_at.monotonic_ms, 2)
    )


def judgement_text(judgement: Judgement | None) -> str | None:
    return None if judgement is None else judgement.value


def seconds(age_ms: int | None) -> float | None:
    """An age as a page shows it."""
    return None if age_ms is None else round(age_ms / 1000, 1)


def add_judgement(shown: dict[str, Any], watch: LagWatch) -> Steps[None]:
    """Add what the last round of `watch` has found to each partition: `lag_seconds`, the age of its
    first unread record, and `judgement`. None = not known; `lag_seconds` is also None without
    lag."""
    group = watch.groups.get(shown["group_id"])
    for rows in chunks(shown["partitions"]):
        for row in rows:
            partition = row["topic"], row["partition"]
            known = None if group is None else group.partition(*partition)
            row["lag_seconds"] = None if known is None else seconds(known.age_ms)
            row["judgement"] = None if known is None else judgement_text(known.judgement)
        yield


def add_lag(shown: dict[str, Any], ends: Ends) -> Steps[None]:
    """Add the lag to what `offsets_steps` has found. Each partition gets `end_offset` and `lag`,
    the number of records that are not committed yet. If `ends` does not know the log, present
    values stay. Each member gets `lag`, the sum over the partitions that it owns. None = not known;
    a partition without a committed offset has no lag, because it is not known where its consumer
    reads."""
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
        yield


def ends_of(watch: LagWatch, now: Ends) -> Ends:
    """Returns the ends of logs. `now` may not know a log, because no client has used it or another
    node leads it. Then the end is taken from the last round."""

    def ends(topic: str, number: int) -> tuple[int, int] | None:
        known = now(topic, number)
        if known is None and (bounds := watch.bounds.get(topic, {}).get(number)) is not None:
            known = bounds.start, bounds.end
        return known

    return ends
