"""Consumption and lag in windows, and what is found in them: rule by rule, then at random."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupd.coordinator.history.changes import ChangeKind, OffsetChange
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.job import Inputs
from groupd.pipeline.jobs import progress
from tests.pipeline.entries import entries_of, inputs_of, rows_of
from tests.pipeline.random_log import GROUPS, RandomLog
from tests.unit.history.harness import RETENTION_MINUTES, START_MS, LoggedShard, changes

pytestmark = pytest.mark.timeout(300)

START = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=START_MS)
MINUTE = timedelta(minutes=1)
End = tuple[str, int, int, datetime | None]


Tables = tuple[list[dict[str, Any]], list[dict[str, Any]]]
MEMBER: dict[str, Any] = {"member_id": "m1", "generation_or_epoch": 1}


def tables(inputs: Inputs, **options: Any) -> Tables:
    """Windows and findings."""
    options = {"window": "1m", **options}
    windows = rows_of(progress.JOB, inputs, **options)
    return windows, rows_of(progress.JOB, inputs, "progress_findings", **options)


def everything() -> LoggedShard:
    """The log of all tests below: a group for each, in one log, as a run takes seconds. Minutes are
    from the start; what takes place in one is over within it."""
    log = LoggedShard()
    steps: list[tuple[float, str, tuple[Any, ...], dict[str, Any]]] = []

    def at(minute: float, what: str, *args: Any, **fields: Any) -> None:
        steps.append((minute, what, args, fields))

    for minute, offset in ((0, 100), (0.5, 130), (0.8, 160), (2.5, 400)):
        at(minute, "commit", "steady", 0, offset)

    at(0, "commit", "transactional", 0, 10)
    at(1, "txn_commit", "transactional", 0, 20, 1)
    at(2, "txn_commit", "transactional", 0, 99, 2)
    at(3, "marker", 1, commit=True)
    at(3.5, "marker", 2, commit=False)

    at(0, "commit", "removed", 0, 10)
    at(1, "delete", "removed", 0)
    at(3, "commit", "removed", 0, 5)
    at(5, "commit", "removed", 0, 7)

    at(0, "members", "reset", 1, m1=(0,))
    at(0.1, "commit", "reset", 0, 10, **MEMBER)
    at(0.5, "members", "reset", 2)
    at(1, "commit", "reset", 0, 1000)
    at(2, "commit", "reset", 0, 300)

    at(0, "members", "back", 1, m1=(0,))
    for minute, offset in ((1, 50), (1.2, 40), (1.4, 39)):
        at(minute, "commit", "back", 0, offset, **MEMBER)

    for partition in (0, 1, 2):
        at(0, "commit", "lag", partition, 10)
    at(3.2, "commit", "lag", 0, 45)

    for group in ("uneven", "idle"):
        for partition in (3, 4):
            at(0, "commit", group, partition, 10)
    for minute in range(1, 6):
        at(minute, "commit", "uneven", 3, 10 + minute)
        at(minute, "commit", "uneven", 4, 10)  # commits, and does not move

    for partition in (5, 6, 7):
        at(0, "commit", "stalled", partition, 10)
    at(4.5, "commit", "stalled", 5, 11)

    for minute, what, args, fields in sorted(steps, key=lambda step: step[0]):
        log.now_ms = max(log.now_ms, START_MS + int(minute * 60_000))
        getattr(log, what)(*args, **fields)
    return log


ENDS: list[End] = [
    ("t", 0, 15, START + MINUTE / 2),
    ("t", 0, 40, START + 2 * MINUTE),  # counts for the window that ends right then
    ("t", 1, 30, None),
    ("t", 3, 15, None),
    ("t", 4, 10, None),
    ("t", 5, 10, START),
    ("t", 5, 90, START + 0.7 * MINUTE),  # so window 1 is the first with something to do
    ("t", 6, 10, START),  # idle: at its end
    ("t", 7, 80, START + 2.5 * MINUTE),
]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Tables:
    inputs = inputs_of(spark, entries_of(spark, {0: everything().batches}))
    return tables(inputs)


@pytest.fixture(scope="module")
def told_with_ends(spark: SparkSession) -> Tables:
    inputs = inputs_of(spark, entries_of(spark, {0: everything().batches}), (), ENDS)
    return tables(inputs)


def of(group: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["group"] == group]


def shown(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def minute(row: dict[str, Any], name: str = "window_start") -> float:
    return (row[name] - START) / MINUTE


def test_what_was_consumed_and_what_stood_still(told: Tables) -> None:
    windows = of("steady", told[0])
    assert [minute(row) for row in windows] == [0, 1, 2, 3, 4, 5]
    assert all(row["window_end"] - row["window_start"] == MINUTE for row in windows)
    assert shown(windows, "commits", "start_offset", "offset", "consumed", "still_windows") == [
        (3, None, 160, 60, 0),
        (0, 160, 160, 0, 1),
        (1, 160, 400, 240, 0),
        (0, 400, 400, 0, 1),
        (0, 400, 400, 0, 2),
        (0, 400, 400, 0, 3),
    ]
    assert [row["rate"] for row in windows] == [1.0, 0.0, 4.0, 0.0, 0.0, 0.0]
    assert {row["lag"] for row in windows} == {None}


def test_a_transaction_is_progress_when_its_marker_comes(told: Tables) -> None:
    windows = of("transactional", told[0])
    assert [row["consumed"] for row in windows] == [0, 0, 0, 10, 0, 0]


def test_nothing_is_shown_of_a_partition_whose_offset_is_gone(told: Tables) -> None:
    windows, findings = (of("removed", rows) for rows in told)
    assert [minute(row) for row in windows] == [0, 1, 3, 4, 5]
    assert [row["offset"] for row in windows] == [10, None, 5, 5, 7]
    assert [row["start_offset"] for row in windows] == [None, 10, None, 5, 5]
    assert findings == []


def test_a_reset_is_no_consumption(told: Tables) -> None:
    windows, findings = (of("reset", rows) for rows in told)
    assert shown(windows, "consumed", "skipped", "rewound", "moved")[:3] == [
        (0, 0, 0, True),
        (0, 990, 0, True),
        (0, 0, 700, False),
    ]
    assert shown(findings, "finding", "evidence", "actor", "previous_offset", "offset", "jump") == [
        ("rewound", "reset", "admin/simple", 1000, 300, -700)
    ]
    assert 2 <= minute(findings[0], "from_time") < 3


def test_a_member_that_goes_back_is_named(told: Tables) -> None:
    windows, findings = (of("back", rows) for rows in told)
    assert [row["rewound"] for row in windows][:2] == [11, 0]
    assert shown(findings, "finding", "jump", "actor", "member", "client_id", "evidence") == [
        ("rewound", -10, "owner", "m1", "client-m1", "back"),
        ("rewound", -1, "owner", "m1", "client-m1", "back"),
    ]


def test_without_ends_the_other_partitions_tell_of_a_stall(told: Tables) -> None:
    assert of("idle", told[1]) == []
    assert shown(of("uneven", told[1]), "finding", "partition", "windows", "evidence", "lag") == [
        ("stalled", 4, 5, "others moved", None)
    ]


def test_lag_is_told_from_the_last_end_known_then(told_with_ends: Tables) -> None:
    by_partition: dict[int, list[Any]] = defaultdict(list)
    for row in of("lag", told_with_ends[0]):
        by_partition[row["partition"]].append((row["end_offset"], row["lag"]))
    assert by_partition[0] == [(15, 5), (40, 30), (40, 30), (40, 0), (40, 0), (40, 0)]
    # An end without a time is that of the end of the input.
    assert by_partition[1] == [(None, None)] * 5 + [(30, 20)]
    assert by_partition[2] == [(None, None)] * 6


def test_no_progress_in_spite_of_lag_is_a_stall(told_with_ends: Tables) -> None:
    windows, findings = (of("stalled", rows) for rows in told_with_ends)
    assert [
        (*line, minute(row, "from_time"), minute(row, "until_time"))
        for row, line in zip(
            findings,
            shown(findings, "finding", "partition", "windows", "offset", "lag", "evidence"),
            strict=True,
        )
    ] == [
        ("stalled", 5, 3, 10, 80, "lag", 1, 4),
        # Its end is known from window 2 on; the stall lasts until the input ends.
        ("stalled", 7, 3, 10, 70, "lag", 3, 6),
    ]
    still = {row["partition"]: row["still_windows"] for row in windows if minute(row) == 5}
    assert still == {5: 1, 6: 5, 7: 5}


def test_of_ends_that_are_known_now_only_the_present_is_told(told_with_ends: Tables) -> None:
    """Partition 1 of `lag` and 3 of `idle` are behind now and have not moved. The log does not tell
    how long there was something to read; `uneven` has all there is, so 4 was no stall."""
    findings = told_with_ends[1]
    at_the_end = [row for row in findings if row["evidence"] == "lag at the end"]
    assert sorted(shown(at_the_end, "group", "partition", "windows", "lag")) == [
        ("idle", 3, 5, 5),
        ("lag", 1, 5, 20),
    ]
    assert of("uneven", findings) == []


def test_thresholds_are_options_and_a_second_run_gives_the_same(
    spark: SparkSession, told_with_ends: Tables
) -> None:
    inputs = inputs_of(spark, entries_of(spark, {0: everything().batches}), (), ENDS)
    windows, findings = tables(inputs, rewound_by="10", stalled_windows="4")
    assert windows == told_with_ends[0]
    assert findings == [
        row
        for row in told_with_ends[1]
        if (row["windows"] or 4) >= 4 and (row["jump"] or -10) <= -10
    ]
    assert len(findings) < len(told_with_ends[1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", "5"),
        ("window", "0s"),
        ("stalled_windows", "0"),
        ("rewound_by", "some"),
        ("until", "then"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    spark: SparkSession, name: str, value: str
) -> None:
    inputs = inputs_of(spark, entries_of(spark, {0: []}))
    with pytest.raises(PipelineError, match=value):
        progress.JOB.build(inputs, {**progress.JOB.options, name: value})


def test_an_empty_log_has_no_progress(spark: SparkSession) -> None:
    inputs = inputs_of(spark, entries_of(spark, {0: []}))
    assert tables(inputs) == ([], [])


WINDOW = timedelta(minutes=2)


def reference(group: str, found: list[OffsetChange]) -> dict[Any, dict[str, int]]:
    """What each partition does in each window, by the changes of the history: in the plainest
    way."""
    table: dict[Any, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for change in found:
        number = (change.time_ms - START_MS) // (WINDOW // timedelta(milliseconds=1))
        row = table[group, change.topic, change.partition, number]
        row["commits"] += change.after is not None
        row["offset"] = change.after.offset if change.after is not None else -1
        if change.before is None or change.after is None:
            continue
        jump = change.after.offset - change.before.offset
        if change.kind is ChangeKind.FORWARD:
            row["consumed"] += jump
        elif jump > 0:
            row["skipped"] += jump
        row["rewound"] += max(-jump, 0)
    return table


@pytest.mark.parametrize("seed", [1])
async def test_windows_of_random_logs_add_up(spark: SparkSession, seed: int) -> None:
    log = RandomLog(seed, 300).log
    expected: dict[Any, dict[str, int]] = {}
    for group in GROUPS:
        found = [one for one in await changes(log, group) if isinstance(one, OffsetChange)]
        expected |= reference(group, found)
    inputs = inputs_of(spark, entries_of(spark, {0: log.batches}))
    windows, findings = tables(inputs, window="2m", retention_minutes=RETENTION_MINUTES)
    names = ("commits", "consumed", "skipped", "rewound")
    assert START.timestamp() % WINDOW.total_seconds() == 0
    with_commits = {}
    for row in windows:
        key = (
            *(row[name] for name in ("group", "topic", "partition")),
            (row["window_start"] - START) // WINDOW,
        )
        offset = -1 if row["offset"] is None else row["offset"]
        if key in expected:
            with_commits[key] = (*(row[name] for name in names), offset)
        else:
            assert not any(row[name] for name in (*names, "moved"))
            assert row["offset"] == row["start_offset"]
    assert with_commits == {
        key: (*(row[name] for name in names), row["offset"]) for key, row in expected.items()
    }
    assert sum(found["finding"] == "rewound" for found in findings) > 10
