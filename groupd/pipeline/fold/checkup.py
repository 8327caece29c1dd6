"""What the end of the log shows about a group: partitions that stand still, a skewed assignment,
offsets about to expire, and partitions that no member reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from groupd.coordinator.history.pending import PendingRecords
from groupd.pipeline.fold.entry import EntryValue, FactRow, FoldEntry
from groupd.pipeline.fold.findings import (
    EMPTY_LAG,
    EXPIRY,
    IDLE,
    MANY,
    SKEW,
    STUCK,
    Thresholds,
    duration,
    finding,
    iso,
    times,
)
from groupd.pipeline.fold.simulate import deviation
from groupd.pipeline.fold.state import CLASSIC, FoldedGroup

NamedPlace = tuple[str, int]
"""Topic name and partition."""


class Committed(Struct):
    """A committed offset. `moved_ms`: when the offset last changed. `commit_ms`: when it was last
    committed. `expire_ms`: when it expires, None if the record does not say."""

    offset: int
    log_offset: int
    commit_ms: int
    moved_ms: int
    expire_ms: int | None


class PresentOffsets:
    """The committed offsets of all groups in a partition of the log."""

    __slots__ = ("_pending", "by_group", "last_ms")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[NamedPlace, Committed]] = {}
        self.last_ms: dict[str, int] = {}
        self._pending: PendingRecords[tuple[str, str, int], FoldEntry] = PendingRecords()

    def apply(self, entry: FoldEntry) -> None:
        """Applies a commit or its tombstone."""
        self.last_ms[entry.group] = entry.at_ms
        key = (entry.group, entry.topic, entry.partition)
        if entry.value is None:
            self._pending.drop(key)
            group = self.by_group.get(entry.group, {})
            group.pop((entry.topic, entry.partition), None)
            if not group:
                self.by_group.pop(entry.group, None)
                self.last_ms.pop(entry.group, None)
        elif entry.producer_id >= 0:
            self._pending.add(entry.producer_id, key, entry)
        else:
            self._commit(entry, entry.value, entry.at_ms)

    def end(self, entry: FoldEntry) -> None:
        """Applies the marker of a transaction."""
        for one in self._pending.take(entry.producer_id).values():
            if entry.marker == "commit" and one.value is not None:
                self._commit(one, one.value, entry.at_ms)

    def of(self, group_id: str) -> Iterator[tuple[NamedPlace, Committed]]:
        yield from sorted(self.by_group.get(group_id, {}).items())

    def _commit(self, entry: FoldEntry, value: EntryValue, at_ms: int) -> None:
        group = self.by_group.setdefault(entry.group, {})
        place = (entry.topic, entry.partition)
        before, offset = group.get(place), int(value["offset"])
        if before is not None and before.log_offset > entry.offset:
            return  # a later record was committed first
        commit_ms = value["commit_ms"] if value["commit_ms"] is not None else at_ms
        moved_ms = before.moved_ms if before and before.offset == offset else at_ms
        group[place] = Committed(offset, entry.offset, commit_ms, moved_ms, value["expire_ms"])


def checkup(
    group_id: str,
    group: FoldedGroup | None,
    offsets: PresentOffsets,
    limits: Thresholds,
    ends: Mapping[NamedPlace, int],
    now_ms: int,
) -> Iterator[FactRow]:
    """The rows of `findings` about one group."""
    if group is not None and group.members:
        yield from _stuck(group, offsets, limits, ends, now_ms)
        yield from _skew(group, limits, now_ms)
    else:
        yield from _empty_with_lag(group_id, group, offsets, limits, ends, now_ms)
    yield from _expiry(group_id, group, offsets, limits, now_ms)


def _stuck(
    group: FoldedGroup,
    offsets: PresentOffsets,
    limits: Thresholds,
    ends: Mapping[NamedPlace, int],
    now_ms: int,
) -> Iterator[FactRow]:
    subscribed = _subscribed(group)
    for (topic, partition), committed in offsets.of(group.group_id):
        lag = ends.get((topic, partition), 0) - committed.offset
        still_ms = now_ms - committed.moved_ms
        if lag < max(limits.stuck_lag, 1) or still_ms < limits.stuck_after_ms:
            continue
        if subscribed is not None and topic not in subscribed:
            continue
        same = committed.commit_ms > committed.moved_ms
        busy = "; its consumer goes on committing the same offset" if same else ""
        yield finding(
            limits,
            STUCK,
            group.group_id,
            f"{topic}-{partition} stands at {committed.offset} for {duration(still_ms)} with"
            f" {lag} records to read{busy}",
            times=times(still_ms, limits.stuck_after_ms),
            first_ms=committed.moved_ms,
            last_ms=now_ms,
            count=1,
            table="commits",
            where={"topic": topic, "partition": partition},
            facts={"offset": committed.offset, "lag": lag, "still_ms": still_ms},
            topic=topic,
            partition=partition,
        )


def _skew(group: FoldedGroup, limits: Thresholds, now_ms: int) -> Iterator[FactRow]:
    """Finds a skewed assignment: how many partitions each member has, where all members subscribe
    to the same topics."""
    if not group.is_homogeneous() or not group.target or len(group.members) < 2:
        return
    loads = {one: len(group.target_of.get(one, ())) for one in group.members}
    values = sorted(loads.values())
    mean, spread = sum(values) / len(values), values[-1] - values[0]
    where = {"epoch": group.epoch}
    if values[-1] >= limits.skew_ratio * mean and spread >= limits.skew_difference:
        most = min(one for one, load in loads.items() if load == values[-1])
        yield finding(
            limits,
            SKEW,
            group.group_id,
            f"{most} has {values[-1]} of {sum(values)} partitions, another member {values[0]};"
            f" evenly shared it would be {mean:.1f} each",
            times=times(values[-1], limits.skew_ratio * mean),
            first_ms=group.last_ms,
            last_ms=now_ms,
            count=1,
            table="member_epochs",
            where=where,
            facts={
                "most": values[-1],
                "fewest": values[0],
                "mean": round(mean, 2),
                "stddev": round(deviation(values), 2),
                "assignor": group.protocol_name,
            },
            member_id=most,
        )
    idle = sorted(one for one, load in loads.items() if not load)
    if idle and len(loads) > len(group.target):
        yield finding(
            limits,
            IDLE,
            group.group_id,
            f"{len(idle)} of {len(loads)} members have nothing to do: there are"
            f" {len(group.target)} partitions",
            times=times(len(loads), len(group.target)),
            first_ms=group.last_ms,
            last_ms=now_ms,
            count=len(idle),
            table="member_epochs",
            where=where,
            facts={"members": idle[:MANY], "count": len(idle)},
        )


def _empty_with_lag(
    group_id: str,
    group: FoldedGroup | None,
    offsets: PresentOffsets,
    limits: Thresholds,
    ends: Mapping[NamedPlace, int],
    now_ms: int,
) -> Iterator[FactRow]:
    if group is None or not group.protocol_type:
        return  # the group only stores offsets: its consumers are not known
    lags: dict[str, int] = {}
    for (topic, partition), committed in offsets.of(group_id):
        lag = ends.get((topic, partition), 0) - committed.offset
        if lag > 0:
            lags[f"{topic}-{partition}"] = lag
    total = sum(lags.values())
    if total < max(limits.empty_lag, 1):
        return
    since_ms = group.empty_since_ms or group.last_ms
    yield finding(
        limits,
        EMPTY_LAG,
        group_id,
        f"no members for {duration(now_ms - since_ms)}, and {total} records to read in"
        f" {len(lags)} partitions",
        times=times(now_ms - since_ms, 3_600_000),
        first_ms=since_ms,
        last_ms=now_ms,
        count=len(lags),
        table="offsets",
        where={},
        facts={"lag": total, "partitions": dict(sorted(lags.items())[:MANY]), "count": len(lags)},
    )


def _expiry(
    group_id: str,
    group: FoldedGroup | None,
    offsets: PresentOffsets,
    limits: Thresholds,
    now_ms: int,
) -> Iterator[FactRow]:
    """Offsets that the coordinator's sweep would soon remove, see docs/pipeline-jobs.md."""
    subscribed = None if group is None or not group.members else _subscribed(group)
    if group is not None and group.members and subscribed is None:
        return
    due: dict[str, int] = {}
    for (topic, partition), committed in offsets.of(group_id):
        if subscribed is not None and topic in subscribed:
            continue
        at_ms = _expires_ms(group, committed, limits)
        if at_ms <= now_ms + limits.expiry_within_ms:
            due[f"{topic}-{partition}"] = at_ms
    if not due:
        return
    first_ms = min(due.values())
    when = f"in {duration(first_ms - now_ms)}" if first_ms > now_ms else "now"
    yield finding(
        limits,
        EXPIRY,
        group_id,
        f"{len(due)} committed offsets expire soon, the first one {when}: then its consumers"
        " start where auto.offset.reset says",
        times=1.0 if first_ms > now_ms else 2.0,
        first_ms=min(first_ms, now_ms),
        last_ms=max(due.values()),
        count=len(due),
        table="offsets",
        where={},
        facts={
            "expires": {name: iso(at_ms) for name, at_ms in sorted(due.items())[:MANY]},
            "count": len(due),
        },
    )


def _expires_ms(group: FoldedGroup | None, committed: Committed, limits: Thresholds) -> int:
    if committed.expire_ms is not None:
        return committed.expire_ms
    base_ms = committed.commit_ms
    if group is not None and group.protocol == CLASSIC and group.empty_since_ms is not None:
        base_ms = group.empty_since_ms
    return base_ms + limits.expiry_retention_ms


def _subscribed(group: FoldedGroup) -> frozenset[str] | None:
    """The topics that at least one member subscribes to. None if that is not known, because the
    subscriptions are in a client's own format."""
    if group.protocol == CLASSIC and group.protocol_type != "consumer":
        return None
    return frozenset().union(*(group.subscription_of(one) for one in group.members.values()))
