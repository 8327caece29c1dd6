"""Everything about the groups that are shown in full, read for all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as f

from groupd.pipeline.report.model import (
    EpochSpan,
    GroupDetail,
    GroupRow,
    HoldingBar,
    LifeBar,
    RebalanceBar,
    ReportExtent,
    ReportFinding,
    Series,
    finest_ms,
    lives_in_lanes,
    merge_holdings,
    merge_marks,
)

LINES_MAX = 8
LIVES_MAX = 500
SPANS_MAX = 2000
HOLDINGS_READ_MAX = 20_000
HOLDINGS_MAX = 4000
REBALANCES_MAX = 200
MARKS_MAX = 20_000
PLACES_MAX = 200


def details_of(
    tables: Mapping[str, DataFrame],
    extent: ReportExtent,
    groups: Sequence[GroupRow],
    findings: Sequence[ReportFinding],
) -> list[GroupDetail]:
    """The details, in the order of `groups`."""
    names = [row.name for row in groups]
    if not names:
        return []
    chosen = {name: frame.where(f.col("group").isin(names)) for name, frame in tables.items()}
    series = _series(chosen["progress"], extent, findings)
    lives = _by_group(_first(chosen["members"], [f.col("joined").desc()], LIVES_MAX), _MEMBER_TIMES)
    spans = _by_group(_longest(chosen["member_epochs"], SPANS_MAX), ("since", "until"))
    holdings = _by_group(_longest(chosen["ownership"], HOLDINGS_READ_MAX), ("since", "until"))
    rebalances = _by_group(_worst(chosen["rebalances"]), _REBALANCE_TIMES)
    marks = _by_group(_marks(chosen["rebalances"]), ("since", "until"))
    found = []
    for row in groups:
        lag, rate = series.get(row.name, (_nothing(extent), _nothing(extent)))
        mine = lives_in_lanes(map(_life, lives.get(row.name, [])), extent.end_ms)
        mine = _with_spans(mine, spans.get(row.name, []))
        places, held = _holdings(holdings.get(row.name, []), mine, extent)
        mine_rebalances = [_rebalance(one) for one in rebalances.get(row.name, [])]
        found.append(
            GroupDetail(
                row,
                lag,
                rate,
                mine,
                places,
                held,
                sorted(mine_rebalances, key=lambda one: one.started_ms),
                merge_marks(
                    [(one.since, max(one.since, one.until)) for one in marks.get(row.name, [])],
                    max(1, finest_ms(extent.start_ms, extent.end_ms) // 4),
                ),
                _notes(row, lives.get(row.name, []), mine_rebalances, holdings.get(row.name, [])),
            )
        )
    return found


_MEMBER_TIMES = ("joined", "ended")
_REBALANCE_TIMES = ("started", "written_at", "stable_at")


def _by_group(frame: DataFrame, times: Sequence[str]) -> dict[str, list[Row]]:
    """The collected rows by group, with times as milliseconds since 1970."""
    columns = [
        f.unix_millis(name).alias(name) if name in times else f.col(name) for name in frame.columns
    ]
    found: dict[str, list[Row]] = {}
    for row in frame.select(*columns).collect():
        found.setdefault(row.group, []).append(row)
    return found


def _first(frame: DataFrame, order: Sequence[Any], most: int) -> DataFrame:
    """The first `most` rows of each group in an order."""
    window = Window.partitionBy("group").orderBy(*order)
    numbered = frame.withColumn("_number", f.row_number().over(window))
    return numbered.where(f.col("_number") <= most).drop("_number")


def _longest(frame: DataFrame, most: int) -> DataFrame:
    length = f.unix_millis("until") - f.unix_millis("since")
    return _first(frame, [length.desc_nulls_first(), f.col("since")], most)


def _worst(frame: DataFrame) -> DataFrame:
    order = [
        f.col("unowned_max_ms").desc_nulls_last(),
        f.col("duration_ms").desc_nulls_last(),
        f.col("moved").desc_nulls_last(),
        f.col("written_at"),
    ]
    return _first(frame, order, REBALANCES_MAX)


def _marks(frame: DataFrame) -> DataFrame:
    since = f.coalesce("started", "target_at", "written_at")
    marks = frame.select(
        "group", since.alias("since"), f.coalesce("stable_at", "target_at", since).alias("until")
    )
    return _first(marks, [f.col("since")], MARKS_MAX)


# Series -------------------------------------------------------------------------------------


def _nothing(extent: ReportExtent) -> Series:
    return Series([None] * extent.steps)


def _series(
    progress: DataFrame, extent: ReportExtent, findings: Sequence[ReportFinding]
) -> dict[str, tuple[Series, Series]]:
    """Lag and rate by group: over all partitions, and one line each for the partitions with most
    lag and those with findings."""
    totals = progress.groupBy("group", "window_start").agg(
        f.sum("lag").alias("lag"), f.sum("rate").alias("rate")
    )
    marked = {
        (one.group, one.topic, one.partition) for one in findings if one.partition is not None
    }
    places = progress.groupBy("group", "topic", "partition").agg(
        f.max("lag").alias("most"), f.sum("consumed").alias("consumed")
    )
    window = Window.partitionBy("group").orderBy(
        f.col("most").desc_nulls_last(), f.col("consumed").desc(), "topic", "partition"
    )
    chosen: dict[str, list[tuple[str, int]]] = {}
    counts: dict[str, int] = {}
    numbered = places.withColumn("number", f.row_number().over(window))
    for row in numbered.orderBy("group", "number").collect():
        counts[row.group] = counts.get(row.group, 0) + 1
        if row.number <= LINES_MAX or (row.group, row.topic, row.partition) in marked:
            mine = chosen.setdefault(row.group, [])
            if len(mine) < 2 * LINES_MAX:
                mine.append((row.topic, row.partition))
    lines = _lines(progress, extent, chosen)
    found = {}
    for group, (lag, rate) in _totals(totals, extent).items():
        mine = chosen.get(group, [])
        others = counts.get(group, 0) - len(mine)
        found[group] = tuple(
            Series(total, [(*place, lines[group, *place][kind]) for place in mine], others)
            for kind, total in enumerate((lag, rate))
        )
    return found  # type: ignore[return-value]


SeriesValues = list[float | None]


def _totals(frame: DataFrame, extent: ReportExtent) -> dict[str, tuple[SeriesValues, SeriesValues]]:
    found: dict[str, tuple[SeriesValues, SeriesValues]] = {}
    for row in _at_steps(frame, extent, ("group",)):
        _put(found.setdefault(row.group, ([None] * extent.steps, [None] * extent.steps)), row)
    return found


def _lines(
    progress: DataFrame, extent: ReportExtent, chosen: Mapping[str, Sequence[tuple[str, int]]]
) -> dict[tuple[str, str, int], tuple[SeriesValues, SeriesValues]]:
    rows = [(group, *place) for group, places in chosen.items() for place in places]
    found: dict[tuple[str, str, int], tuple[SeriesValues, SeriesValues]] = {
        row: ([None] * extent.steps, [None] * extent.steps) for row in rows
    }
    if not rows:
        return found
    wanted = progress.sparkSession.createDataFrame(
        rows, "group string, topic string, partition int"
    )
    mine = progress.join(f.broadcast(wanted), ["group", "topic", "partition"])
    for row in _at_steps(mine, extent, ("group", "topic", "partition")):
        _put(found[row.group, row.topic, row.partition], row)
    return found


def _at_steps(frame: DataFrame, extent: ReportExtent, keys: Sequence[str]) -> Iterable[Row]:
    at = ((f.unix_millis("window_start") - extent.start_ms) / extent.step_ms).cast("int")
    return frame.select(*keys, at.alias("at"), "lag", f.round("rate", 3).alias("rate")).collect()


def _put(values: tuple[SeriesValues, SeriesValues], row: Row) -> None:
    lag, rate = values
    if 0 <= row.at < len(lag):
        lag[row.at], rate[row.at] = row.lag, row.rate


# Members, partitions, rebalances -------------------------------------------------------------


def _life(row: Row) -> LifeBar:
    label = row.instance_id or row.client_id or row.member_id
    return LifeBar(
        row.member_id, 0, label, row.client_host or "", row.joined, row.ended, row.ended_by
    )


def _with_spans(lives: list[LifeBar], rows: Iterable[Row]) -> list[LifeBar]:
    """Adds each span to the life of its member in which the span begins."""
    by_member: dict[str, list[int]] = {}
    for number, life in enumerate(lives):
        by_member.setdefault(life.member_id, []).append(number)
    spans: dict[int, list[EpochSpan]] = {}
    for row in rows:
        life_at = _life_at(lives, by_member.get(row.member_id, ()), row.since)
        if life_at is not None:
            span = EpochSpan(row.since, row.until, row.state, row.epoch or 0, row.partitions or 0)
            spans.setdefault(life_at, []).append(span)
    return [
        replace(life, spans=sorted(spans.get(number, ()), key=lambda span: span.since_ms))
        for number, life in enumerate(lives)
    ]


def _life_at(lives: Sequence[LifeBar], numbers: Sequence[int], at_ms: int) -> int | None:
    """The last life that had begun at `at_ms`, else the first one; None without lives."""
    begun = [number for number in numbers if lives[number].joined_ms <= at_ms]
    return begun[-1] if begun else (numbers[0] if numbers else None)


def _holdings(
    rows: Sequence[Row], lives: Sequence[LifeBar], extent: ReportExtent
) -> tuple[list[tuple[str, int]], list[HoldingBar]]:
    places = sorted({(row.topic or row.topic_id or "", row.partition) for row in rows})[:PLACES_MAX]
    numbers = {place: number for number, place in enumerate(places)}
    by_member: dict[str, list[int]] = {}
    for number, life in enumerate(lives):
        by_member.setdefault(life.member_id, []).append(number)
    found = []
    for row in rows:
        place = numbers.get((row.topic or row.topic_id or "", row.partition))
        life_at = _life_at(lives, by_member.get(row.member_id, ()), row.since)
        if place is not None and life_at is not None:
            found.append(HoldingBar(place, life_at, row.since, row.until))
    return places, merge_holdings(found, HOLDINGS_MAX, finest_ms(extent.start_ms, extent.end_ms))


def _rebalance(row: Row) -> RebalanceBar:
    return RebalanceBar(
        row.epoch,
        row.started if row.started is not None else row.written_at,
        row.duration_ms,
        row.status or "",
        row.trigger or "unknown",
        row.why or "",
        row.members_before,
        row.members_after,
        row.moved,
        row.needless,
        row.unowned_max_ms,
    )


def _notes(
    row: GroupRow, lives: Sequence[Row], rebalances: Sequence[RebalanceBar], holdings: Sequence[Row]
) -> list[str]:
    """Notes about what the limits have left out."""
    notes = []
    if row.rebalances > len(rebalances):
        notes.append(
            f"The table has {len(rebalances)} of {row.rebalances:,} rebalances: those that left "
            "partitions unread longest. The chart has all."
        )
    if len(lives) == LIVES_MAX:
        notes.append(f"Only the {LIVES_MAX} members that joined last are drawn.")
    if len(holdings) > HOLDINGS_MAX:
        notes.append("Partitions changed hands so often that the shortest times are drawn as one.")
    if len({(one.topic, one.partition) for one in holdings}) > PLACES_MAX:
        notes.append(f"Only the first {PLACES_MAX} partitions are drawn.")
    return notes
