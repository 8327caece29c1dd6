"""`redeliveries`, rule by rule and against a plain model at random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupd.coordinator.logtools.logs import SHARE_STATE_LOG
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.inputs import Origin, read_entries
from groupd.pipeline.job import Inputs
from groupd.pipeline.jobs import redeliveries, share_entries
from groupd.pipeline.logs import SHARE_STATE
from groupd.pipeline.run import run_job
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.storage.open import DATABASE_FILE
from tests.pipeline.entries import inputs_of, rows_of
from tests.pipeline.share_entries import plain, share_rows_of, timed
from tests.support.pipeline_logs import fill_store, write_segments
from tests.support.share_state_logs import PARTITIONS, coordinator_at_random
from tests.unit.logtools.harness import TIME_MS
from tests.unit.logtools.share_logs import (
    PLACE,
    StateRecord,
    fill_state,
    home_of,
    no_state,
    snapshot,
    update,
    write_state,
)
from tests.unit.share_state.harness import READ, asked

pytestmark = pytest.mark.timeout(300)

START = datetime.fromtimestamp(TIME_MS / 1000, UTC)
TOPICS = [("00112233-4455-6677-8899-aabbccddeeff", "orders", 2)]
Rows = list[dict[str, Any]]


def inputs(spark: SparkSession, *steps: tuple[int, StateRecord]) -> Inputs:
    ends = [("orders", 0, 20, None), ("orders", 0, 15, START + timedelta(seconds=25))]
    return inputs_of(spark, share_rows_of(spark, timed(*steps)), TOPICS, ends)


STORY = [
    (0, snapshot(0, -1)),
    (10, update(0, 0, (0, 4, 2, 1), (5, 9, 0, 1), complete=5)),
    (20, update(0, 5, (5, 9, 0, 2))),
    (400, snapshot(1, 5, (5, 8, 0, 3), (9, 9, 2, 3), (10, 11, 4, 1), complete=3)),
    (420, update(1, 5, (5, 6, 2, 4), complete=5)),
]
"""Ten records: five are accepted, the others come back and come back; a snapshot stands for a
write; two are given up."""


@pytest.fixture(scope="module")
def story(spark: SparkSession) -> Inputs:
    return inputs(spark, *STORY)


def counts(row: Mapping[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(one.values()) for one in row["deliveries"]]


def test_answers_by_window_and_delivery_count(story: Inputs) -> None:
    first, second = rows_of(redeliveries.JOB, story)
    names = ("topic", "partition", "accepted", "released", "archived", "redelivered")
    assert plain(first, *names, "most_deliveries") == ("orders", 0, 5, 10, 0, 5, 2)
    assert counts(first) == [(1, 5, 5, 0), (2, 0, 5, 0)]
    assert plain(second, *names, "most_deliveries") == ("orders", 0, 3, 4, 2, 7, 4)
    assert counts(second) == [(1, 0, 0, 2), (3, 1, 4, 0), (4, 2, 0, 0)]


def test_the_start_offset_moves_and_stands_still(story: Inputs) -> None:
    first, second = rows_of(redeliveries.JOB, story)
    names = ("start_offset", "start_moved", "begun", "still_ms")
    assert plain(first, *names) == (5, 5, 1, 20_000)
    assert plain(second, *names) == (5, 0, 0, 400_000)


def test_the_records_that_came_most_often(story: Inputs) -> None:
    rows = rows_of(redeliveries.JOB, story, "redelivered")
    names = ("first_offset", "last_offset", "deliveries", "outcome", "releases", "rank")
    assert [plain(row, *names) for row in rows] == [
        (5, 6, 4, "accepted", 3, 1),
        (7, 8, 3, "released", 3, 2),
        (9, 9, 3, "accepted", 2, 3),
    ]
    assert rows[0]["first_time"] == START + timedelta(seconds=10)
    assert rows[0]["last_time"] == START + timedelta(seconds=420)
    assert len(rows_of(redeliveries.JOB, story, "redelivered", top=1)) == 1
    assert len(rows_of(redeliveries.JOB, story, "redelivered", deliveries=4)) == 1


def test_the_lag_leaves_out_what_is_finished(story: Inputs) -> None:
    """In the last window it counts to the present end, before that to the end at that time."""
    names = ("start_offset", "end_offset", "lag", "moved_at")
    first, second = rows_of(redeliveries.JOB, story)
    assert plain(first, *names) == (5, 15, 10, START + timedelta(seconds=20))
    assert plain(second, *names) == (5, 20, 10, None)


def test_a_new_start_offset_begins_anew(spark: SparkSession) -> None:
    """The same offsets are delivered for the first time again; the start has not moved, it was
    set."""
    again = [
        (500, snapshot(2, 0, state_epoch=3)),
        (510, update(2, 0, (0, 9, 2, 1), complete=10)),
        (520, update(2, 10)),
    ]
    found = inputs(spark, *STORY, *again)
    last = rows_of(redeliveries.JOB, found)[-1]
    assert plain(last, "accepted", "begun", "start_moved", "start_offset") == (13, 1, 10, 10)
    records = rows_of(redeliveries.JOB, found, "redelivered", deliveries=1)
    assert [row["deliveries"] for row in records if row["first_offset"] == 0] == [1, 1]


def test_an_epoch_that_is_kept_begins_anew_where_the_start_goes_back(spark: SparkSession) -> None:
    """As before Kafka 4.5; a snapshot of a state that is at rest does not."""
    found = inputs(spark, *STORY, (500, snapshot(2, 12)), (560, snapshot(3, 2)))
    last = rows_of(redeliveries.JOB, found)[-1]
    assert plain(last, "begun", "start_moved", "start_offset", "still_ms") == (1, 7, 2, 480_000)


def test_without_state_there_is_no_row(spark: SparkSession) -> None:
    found = inputs(spark, *STORY, (500, no_state()))
    assert len(rows_of(redeliveries.JOB, found)) == 2
    assert rows_of(redeliveries.JOB, inputs(spark)) == []


def test_a_history_that_begins_in_the_middle_counts_only_what_it_sees(
    spark: SparkSession,
) -> None:
    (row,) = rows_of(redeliveries.JOB, inputs(spark, *STORY[3:]))
    assert plain(row, "accepted", "released", "archived") == (2, 0, 0)


def test_what_goes_to_the_dead_letter_queue_is_archived_once(spark: SparkSession) -> None:
    steps = [(1, snapshot(0, 0)), (2, update(0, 0, (0, 0, 3, 5))), (3, update(0, 0, (0, 0, 4, 5)))]
    (row,) = rows_of(redeliveries.JOB, inputs(spark, *steps))
    assert plain(row, "archived", "redelivered") == (1, 1)


def test_wrong_options(story: Inputs) -> None:
    with pytest.raises(PipelineError, match="top must be a whole number, at least 1, not 0"):
        redeliveries.JOB.build(story, {**redeliveries.JOB.options, "top": 0})


# Against a model


class Model:
    """A share-partition as a dict: offset -> (count, state). Writes what a coordinator would."""

    def __init__(self, rng: Random, key: SharePartitionKey) -> None:
        self.rng, self.key = rng, key
        self.start, self.epoch = 0, 0
        self.known: dict[int, tuple[int, int]] = {}
        self.answers: Counter[str] = Counter()
        self.most: dict[int, int] = {}

    def begin(self) -> StateRecord:
        return snapshot(0, 0, key=self.key)

    def step(self) -> StateRecord:
        """One write: some offsets are answered, and the start moves over what has ended."""
        rng = self.rng
        while self.known.get(self.start, (0, 0))[1] in (2, 4):
            del self.known[self.start]
            self.start += 1
        changed: dict[int, tuple[int, int]] = {}
        first = self.start + rng.randrange(600)
        for offset in range(first, first + rng.choice((1, 3, 40, 700))):
            count, state = self.known.get(offset, (0, 0))
            if state == 0:
                changed[offset] = count + 1, rng.choice((0, 0, 2, 4)) if offset % 9 else 0
        for offset, (count, state) in changed.items():
            self.answers[{0: "released", 2: "accepted", 4: "archived"}[state]] += 1
            self.most[offset] = max(self.most.get(offset, 0), count)
        self.known |= changed
        if rng.random() < 0.15:
            self.epoch += 1
            return snapshot(self.epoch, self.start, *runs(self.known), key=self.key)
        return update(self.epoch, self.start, *runs(changed), key=self.key)


def runs(states: Mapping[int, tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    found: list[list[int]] = []
    for offset, (count, state) in sorted(states.items()):
        if found and found[-1][1:] == [offset - 1, state, count]:
            found[-1][1] = offset
        else:
            found.append([offset, offset, state, count])
    return [(one[0], one[1], one[2], one[3]) for one in found]


@pytest.mark.parametrize("seed", [1, 2])
def test_both_tables_agree_with_a_model(spark: SparkSession, seed: int) -> None:
    rng = Random(seed)
    models = [Model(rng, PLACE._replace(partition=number)) for number in range(3)]
    steps = [(0, model.begin()) for model in models]
    steps += [(second, rng.choice(models).step()) for second in range(1, 60)]
    found = inputs(spark, *steps)
    windows = rows_of(redeliveries.JOB, found, window="7s")
    records = rows_of(redeliveries.JOB, found, "redelivered", deliveries=1, top=100_000)
    for number, model in enumerate(models):
        mine = [row for row in windows if row["partition"] == number]
        for name in ("accepted", "released", "archived"):
            assert sum(row[name] for row in mine) == model.answers[name]
        assert sum(row["start_moved"] for row in mine) == model.start
        assert mine[-1]["start_offset"] == model.start
        most = {
            offset: row["deliveries"]
            for row in records
            if row["partition"] == number
            for offset in range(row["first_offset"], row["last_offset"] + 1)
        }
        assert most == model.most


@pytest.mark.parametrize("seed", [1, 2])
def test_the_start_offset_is_the_one_that_the_coordinator_has(
    spark: SparkSession, seed: int
) -> None:
    bench = coordinator_at_random(seed)
    found = inputs(spark, *enumerate(bench.log))
    rows = {row["partition"]: row for row in rows_of(redeliveries.JOB, found)}
    assert len(rows) == PARTITIONS
    for partition, row in rows.items():
        assert row["start_offset"] == bench.ask(READ, asked(partition=partition)).start_offset


# Inputs


async def test_a_store_segments_and_a_lake_give_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    payloads = timed(*STORY)
    fill_store(f"sqlite:///{tmp_path / DATABASE_FILE}")
    await fill_state(tmp_path, home_of(), *payloads)
    write_segments(tmp_path / "k")
    write_state(tmp_path / "k", home_of(), *payloads)
    store, files = Origin(store=str(tmp_path)), Origin(segments=str(tmp_path / "k"))
    expected = read_entries(spark, store, log=SHARE_STATE).orderBy("log_offset").collect()
    assert len(expected) == len(STORY)
    assert read_entries(spark, files, log=SHARE_STATE).orderBy("log_offset").collect() == expected
    done = run_job(spark, share_entries.JOB, store, str(tmp_path / "lake"))
    assert (done.rows, done.quarantined) == ({"share-entries": len(STORY)}, 0)
    lake = Origin(lake=str(tmp_path / "lake"))
    assert read_entries(spark, lake, log=SHARE_STATE).orderBy("log_offset").collect() == expected
    updates = (
        spark.read.format("groupd")
        .option("store", str(tmp_path))
        .option("log", SHARE_STATE_LOG.topic)
        .load()
        .where("record_type_id = 1 AND `group` = 'g0'")
    )
    assert updates.count() == 3


def test_a_store_without_share_groups_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    fill_store(f"sqlite:///{tmp_path / DATABASE_FILE}")
    for origin in (
        Origin(store=str(tmp_path)),
        Origin(segments=str(write_segments(tmp_path / "k"))),
    ):
        done = run_job(spark, redeliveries.JOB, origin, str(tmp_path / "out"))
        assert done.rows == {"redeliveries": 0, "redelivered": 0}
