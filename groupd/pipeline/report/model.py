"""What the page shows, as plain data of limited size. Times are milliseconds since 1970.

Many facts are reduced to few enough to be drawn, without losing anything that could be seen. This
module loads without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace


class ReportLimits(Struct, frozen=True):
    """`details`: groups with charts; `rows`: groups in the list."""

    details: int = 30
    rows: int = 1000


DEFAULT_LIMITS = ReportLimits()


SEVERITIES = ("critical", "warning", "info")
"""The severities, the worst first."""


class ReportExtent(Struct, frozen=True):
    """The time of a report, in windows of `progress`."""

    start_ms: int
    end_ms: int
    step_ms: int

    @property
    def steps(self) -> int:
        return max(1, -(-(self.end_ms - self.start_ms) // self.step_ms))


class ReportFinding(Struct, frozen=True):
    """A finding. `table`: the job's table with the evidence. `since_ms`, `until_ms`: when it
    was."""

    group: str
    kind: str
    severity: str
    summary: str
    topic: str | None = None
    partition: int | None = None
    member: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    table: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Series(Struct, frozen=True):
    """Values in even steps from the beginning of the report; None where nothing is known. `lines`:
    (topic, partition, values) of the partitions that stand out. `others`: how many other partitions
    there are."""

    total: Sequence[float | None]
    lines: Sequence[tuple[str, int, Sequence[float | None]]] = ()
    others: int = 0


class EpochSpan(Struct, frozen=True):
    """An interval in which a member had one epoch and state. `until_ms` None: until the end."""

    since_ms: int
    until_ms: int | None
    state: str
    epoch: int
    partitions: int


class LifeBar(Struct, frozen=True):
    """The life of a member under one id. `lane`: lives that follow each other and seem to be the
    same process share a lane. `ended_by`: None while the member lives."""

    member_id: str
    lane: int
    label: str
    client_host: str
    joined_ms: int
    ended_ms: int | None
    ended_by: str | None
    spans: Sequence[EpochSpan] = ()


class HoldingBar(Struct, frozen=True):
    """An interval in which a member held a partition. `place` and `life` are indexes into the lists
    of the group."""

    place: int
    life: int
    since_ms: int
    until_ms: int | None


class RebalanceBar(Struct, frozen=True):
    """A rebalance. If its start is not known, `started_ms` is when its first record was written."""

    epoch: int
    started_ms: int
    duration_ms: int | None
    status: str
    trigger: str
    why: str
    members_before: int | None
    members_after: int | None
    moved: int | None
    needless: int | None
    unowned_max_ms: int | None


class GroupRow(Struct, frozen=True):
    """A row in the list of groups. `lag`: at the end; `trend`: its course in a few steps."""

    name: str
    severity: str | None
    findings: int
    summary: str
    protocol: str
    state: str
    members: int
    rebalances: int
    lag: int | None
    lag_max: int | None
    trend: Sequence[float | None] = ()


class GroupDetail(Struct, frozen=True):
    """Everything about one group. `notes`: what was left out to keep the page small."""

    row: GroupRow
    lag: Series
    rate: Series
    lives: Sequence[LifeBar]
    places: Sequence[tuple[str, int]]
    holdings: Sequence[HoldingBar]
    rebalances: Sequence[RebalanceBar]
    rebalance_marks: Sequence[tuple[int, int]]
    """(start, end) of all rebalances, for the charts."""

    notes: Sequence[str] = ()


class ShareRow(Struct, frozen=True):
    """What a share group did with a partition. `still_ms`: how long its start offset has stood
    still at the end; `trend`: redelivered records in a few steps."""

    group: str
    topic: str
    partition: int
    accepted: int
    released: int
    archived: int
    redelivered: int
    most_deliveries: int
    start_offset: int | None
    still_ms: int | None
    lag: int | None
    trend: Sequence[float | None] = ()


class ShareRange(Struct, frozen=True):
    """Records of a share-partition that were delivered several times. `outcome`: what the last
    delivery ended with."""

    group: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    deliveries: int
    outcome: str
    last_ms: int


class SharePart(Struct, frozen=True):
    """The share groups of a log. `left_out`: how many share-partitions are not in `rows`."""

    rows: Sequence[ShareRow] = ()
    left_out: int = 0
    ranges: Sequence[ShareRange] = ()


class Report(Struct, frozen=True):
    """`steps`: the number of values in every series. `counts`: figures of the whole input by label.
    `severities`: those of all findings."""

    source: str
    start_ms: int
    end_ms: int
    made_ms: int
    steps: int
    counts: Mapping[str, int]
    severities: Mapping[str, int]
    findings: Sequence[ReportFinding]
    findings_left_out: int
    groups: Sequence[GroupRow]
    groups_left_out: int
    details: Sequence[GroupDetail]
    shares: SharePart = SharePart()


# Less data ----------------------------------------------------------------------------------

# `collect` limits the rows in Spark; these functions reduce them to what the page can hold.

LANES_MAX = 40
_FINEST_PARTS = 1500
"""An interval shorter than one part in this many of the whole time is less than a pixel wide."""


def lives_in_lanes(rows: Iterable[LifeBar], end_ms: int) -> list[LifeBar]:
    """Lives sorted by time, in lanes: lives with the same label that follow each other are taken
    for the same process. Beyond `LANES_MAX` lanes the rest share the last one."""
    lives: list[tuple[int, LifeBar]] = []
    free: dict[str, list[int]] = {}
    for life in sorted(rows, key=lambda life: (life.joined_ms, life.member_id)):
        ends = free.setdefault(life.label, [])
        until = end_ms + 1 if life.ended_ms is None else life.ended_ms
        number = next((n for n, end in enumerate(ends) if end <= life.joined_ms), len(ends))
        ends[number : number + 1] = [until]
        lives.append((number, life))
    several = {label for label, ends in free.items() if len(ends) > 1}
    keys = sorted({(life.label, number) for number, life in lives}, key=_natural)
    lanes = {key: min(lane, LANES_MAX) for lane, key in enumerate(keys)}
    found = []
    for number, life in lives:
        lane = lanes[life.label, number]
        label = f"{life.label} #{number + 1}" if life.label in several else life.label
        if lane == LANES_MAX:
            label = f"{len(keys) - LANES_MAX} more members"
        found.append(replace(life, lane=lane, label=label))
    return found


def _natural(key: tuple[str, int]) -> tuple[str, int, str, int]:
    """A sort key that puts `worker-2` before `worker-10`."""
    name, number = key
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return head, int(tail or -1) if len(tail) < 18 else -1, name, number


def finest_ms(start_ms: int, end_ms: int) -> int:
    return max(1, (end_ms - start_ms) // _FINEST_PARTS)


def merge_holdings(holdings: Iterable[HoldingBar], most: int, finest: int) -> list[HoldingBar]:
    """Holdings sorted by partition and time. If there are more than `most`, those shorter than
    `finest` become part of the one before and gaps shorter than that are closed. The limit grows
    until they are few enough."""
    found = sorted(holdings, key=lambda one: (one.place, one.since_ms))
    while len(found) > most:
        found = _coarser(found, finest)
        finest *= 2
    return found


def _coarser(holdings: Sequence[HoldingBar], finest: int) -> list[HoldingBar]:
    found: list[HoldingBar] = []
    for one in holdings:
        last = found[-1] if found and found[-1].place == one.place else None
        end = None if last is None else last.until_ms
        near = last is not None and end is not None and one.since_ms - end < finest
        short = one.until_ms is not None and one.until_ms - one.since_ms < finest
        if last is not None and near and (short or last.life == one.life):
            found[-1] = replace(last, until_ms=one.until_ms)
        elif last is not None and near and end is not None and end - last.since_ms < finest:
            found[-1] = replace(one, since_ms=last.since_ms)
        else:
            found.append(one)
    return found


def merge_marks(marks: Iterable[tuple[int, int]], finest: int) -> list[tuple[int, int]]:
    """Merges times that overlap or nearly touch."""
    found: list[tuple[int, int]] = []
    for since, until in sorted(marks):
        if found and since - found[-1][1] < finest:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


def downsample(values: Sequence[float | None], most: int) -> list[float | None]:
    """Keeps the largest value of each stretch."""
    if len(values) <= most:
        return list(values)
    found: list[float | None] = []
    for number in range(most):
        start, end = number * len(values) // most, (number + 1) * len(values) // most
        known = [value for value in values[start:end] if value is not None]
        found.append(max(known) if known else None)
    return found
