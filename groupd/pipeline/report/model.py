"""What the page shows, as plain data of limited size. Times are milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

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
    score: float
    summary: str
    topic: str | None = None
    partition: int | None = None
    member: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    count: int = 1
    table: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Series(Struct, frozen=True):
    """Values in even steps from the beginning of the report; None where nothing is known. `lines`:
    (topic, partition, values) of the partitions that stand out. `others`: how many partitions there
    are besides."""

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
    ended_why: str | None
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
    rank: int
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
