"""What the end of the log shows about a group: partitions that stand still, a skewed assignment,
offsets about to expire, and partitions that no member reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
    Occurrences,
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
        if before is not None and before.log_offset > entry.log_offset:
            return  # a later record was committed first
        commit_ms = value["commit_ms"] if value["commit_ms"] is not None else at_ms
        moved_ms = before.moved_ms if before and before.offset == offset else at_ms
        group[place] = Committed(offset, entry.log_offset, commit_ms, moved_ms, value["expire_ms"])


class Checkup(Struct):
    """What the end of the log shows about one group. `group`: None if it only stores offsets.
    `ends`: the last known end offsets. `now_ms`: the instant as of which the log is judged."""

    group_id: str
    group: FoldedGroup | None
    offsets: PresentOffsets
    limits: Thresholds
    ends: Mapping[NamedPlace, int]
    now_ms: int

    def rows(self) -> Iterator[FactRow]:
        """The rows of `findings` about the group."""
        if self.group is not None and self.group.members:
            yield from self._stuck(self.group)
            yield from self._skew(self.group)
        elif self.group is not None and self.group.protocol_type:
            yield from self._empty_with_lag(self.group)
        yield from self._expiry()

    def _finding(self, kind: str, summary: str, seen: Occurrences, **given: Any) -> FactRow:
        return finding(self.limits, kind, self.group_id, summary, seen, **given)

    def _lags(self) -> Iterator[tuple[NamedPlace, Committed, int]]:
        for place, committed in self.offsets.of(self.group_id):
            yield place, committed, self.ends.get(place, 0) - committed.offset

    def _stuck(self, group: FoldedGroup) -> Iterator[FactRow]:
        limits, subscribed = self.limits, _subscribed(group)
        for (topic, partition), committed, lag in self._lags():
            still_ms = self.now_ms - committed.moved_ms
            if lag < max(limits.stuck_lag, 1) or still_ms < limits.stuck_after_ms:
                continue
            if subscribed is not None and topic not in subscribed:
                continue
            same = committed.commit_ms > committed.moved_ms
            busy = "; its consumer goes on committing the same offset" if same else ""
            yield self._finding(
                STUCK,
                f"{topic}-{partition} stands at {committed.offset} for {duration(still_ms)} with"
                f" {lag} records to read{busy}",
                Occurrences(committed.moved_ms, self.now_ms, 1),
                times=times(still_ms, limits.stuck_after_ms),
                table="commits",
                where={"topic": topic, "partition": partition},
                facts={"offset": committed.offset, "lag": lag, "still_ms": still_ms},
                topic=topic,
                partition=partition,
            )

    def _skew(self, group: FoldedGroup) -> Iterator[FactRow]:
        """Finds a skewed assignment: how many partitions each member has, where all members
        subscribe to the same topics."""
        if not group.is_homogeneous() or not group.target or len(group.members) < 2:
            return
        limits = self.limits
        loads = {one: len(group.target_of.get(one, ())) for one in group.members}
        values = sorted(loads.values())
        mean, spread = sum(values) / len(values), values[-1] - values[0]
        where = {"epoch": group.epoch}
        if values[-1] >= limits.skew_ratio * mean and spread >= limits.skew_difference:
            most = min(one for one, load in loads.items() if load == values[-1])
            yield self._finding(
                SKEW,
                f"{most} has {values[-1]} of {sum(values)} partitions, another member {values[0]};"
                f" evenly shared it would be {mean:.1f} each",
                Occurrences(group.last_ms, self.now_ms, 1),
                times=times(values[-1], limits.skew_ratio * mean),
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
            yield self._finding(
                IDLE,
                f"{len(idle)} of {len(loads)} members have nothing to do: there are"
                f" {len(group.target)} partitions",
                Occurrences(group.last_ms, self.now_ms, len(idle)),
                times=times(len(loads), len(group.target)),
                table="member_epochs",
                where=where,
                facts={"members": idle[:MANY], "count": len(idle)},
            )

    def _empty_with_lag(self, group: FoldedGroup) -> Iterator[FactRow]:
        lags = {f"{topic}-{number}": lag for (topic, number), _, lag in self._lags() if lag > 0}
        total = sum(lags.values())
        if total < max(self.limits.empty_lag, 1):
            return
        since_ms = group.empty_since_ms or group.last_ms
        yield self._finding(
            EMPTY_LAG,
            f"no members for {duration(self.now_ms - since_ms)}, and {total} records to read in"
            f" {len(lags)} partitions",
            Occurrences(since_ms, self.now_ms, len(lags)),
            times=times(self.now_ms - since_ms, 3_600_000),
            table="offsets",
            facts={
                "lag": total,
                "partitions": dict(sorted(lags.items())[:MANY]),
                "count": len(lags),
            },
        )

    def _expiry(self) -> Iterator[FactRow]:
        """Offsets that the coordinator's sweep would soon remove, see docs/pipeline-jobs.md."""
        subscribed: frozenset[str] | None = frozenset()
        if self.group is not None and self.group.members:
            subscribed = _subscribed(self.group)
        if subscribed is None:
            return
        until_ms = self.now_ms + self.limits.expiry_within_ms
        due = {
            f"{topic}-{partition}": at_ms
            for (topic, partition), committed in self.offsets.of(self.group_id)
            if topic not in subscribed and (at_ms := self._expires_ms(committed)) <= until_ms
        }
        if not due:
            return
        first_ms = min(due.values())
        soon = first_ms > self.now_ms
        when = f"in {duration(first_ms - self.now_ms)}" if soon else "now"
        yield self._finding(
            EXPIRY,
            f"{len(due)} committed offsets expire soon, the first one {when}: then its consumers"
            " start where auto.offset.reset says",
            Occurrences(min(first_ms, self.now_ms), max(due.values()), len(due)),
            times=1.0 if soon else 2.0,
            table="offsets",
            facts={
                "expires": {name: iso(at_ms) for name, at_ms in sorted(due.items())[:MANY]},
                "count": len(due),
            },
        )

    def _expires_ms(self, committed: Committed) -> int:
        if committed.expire_ms is not None:
            return committed.expire_ms
        group, base_ms = self.group, committed.commit_ms
        if group is not None and group.protocol == CLASSIC and group.empty_since_ms is not None:
            base_ms = group.empty_since_ms
        return base_ms + self.limits.expiry_retention_ms


def _subscribed(group: FoldedGroup) -> frozenset[str] | None:
    """The topics that at least one member subscribes to. None if that is not known, because the
    subscriptions are in a client's own format."""
    if group.protocol == CLASSIC and group.protocol_type != "consumer":
        return None
    return frozenset().union(*(group.subscription_of(one) for one in group.members.values()))
