"""`commits` and `offsets` against the coordinator's own replay, over random logs."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupd.coordinator.history.changes import Actor, CommittedOffset, OffsetChange
from groupd.pipeline.jobs import commits, offsets
from groupd.protocol.records.batch import decode_marker, iter_records, parse_header
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import OffsetCommitKey
from tests.pipeline.entries import entries_of, inputs_of, rows_of
from tests.pipeline.random_log import GROUPS, RandomLog
from tests.unit.history.harness import RETENTION_MINUTES, LoggedShard, changes

pytestmark = pytest.mark.timeout(300)

SEEDS = range(6)
STEPS = 250


def told(change: OffsetChange) -> dict[str, Any]:
    """A change of the history as `commits` shows it."""
    author = change.author
    removed = change.after is None
    return {
        "topic": change.topic,
        "partition": change.partition,
        "kind": change.kind.value,
        "effective_offset": change.log_offset,
        "log_offset": change.log_offset if removed else change.after.log_offset,
        "previous_offset": offset_of(change.before),
        "offset": offset_of(change.after),
        "actor": author.actor.value,
        "member": author.member_id or None,
        "instance": author.instance_id,
        "client_id": author.client_id or None,
        "client_host": author.client_host or None,
        "epoch": None if author.epoch < 0 else author.epoch,
        "producer_id": None if author.producer_id < 0 else author.producer_id,
    }


def offset_of(committed: CommittedOffset | None) -> int | None:
    return None if committed is None else committed.offset


def outcomes(log: LoggedShard) -> dict[int, str]:
    """What became of each commit record, by log offset, in the plainest way."""
    found: dict[int, str] = {}
    pending: dict[int, list[int]] = {}
    for payload in log.batches:
        header = parse_header(payload)
        for raw in iter_records(payload):
            if header.is_control:
                word = "committed" if decode_marker(raw).committed else "aborted"
                found.update(dict.fromkeys(pending.pop(header.producer_id, ()), word))
            elif raw.value is not None and isinstance(
                decode_record(raw.key, raw.value).key, OffsetCommitKey
            ):
                found[raw.offset] = "open" if header.is_transactional else "committed"
                if header.is_transactional:
                    pending.setdefault(header.producer_id, []).append(raw.offset)
    return found


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_commit_is_told_as_the_coordinators_own_replay_tells_it(
    spark: SparkSession, seed: int
) -> None:
    log = RandomLog(seed, STEPS).log
    expected = [
        {"group": group, **told(change)}
        for group in GROUPS
        for change in await changes(log, group)
        if isinstance(change, OffsetChange)
    ]
    inputs = inputs_of(spark, entries_of(spark, {0: log.batches}))
    rows = rows_of(commits.JOB, inputs, retention_minutes=RETENTION_MINUTES)
    names = expected[0].keys()
    effective = [{name: row[name] for name in names} for row in rows if row["effective"]]
    assert sorted(effective, key=str) == sorted(expected, key=str)
    assert {row["kind"] for row in rows if not row["effective"]} <= {None}
    written = {row["log_offset"]: row["outcome"] for row in rows if row["offset"] is not None}
    assert written == outcomes(log)
    assert all(
        row["jump"] == row["offset"] - row["previous_offset"]
        for row in rows
        if None not in (row["offset"], row["previous_offset"])
    )


def test_random_logs_hold_every_kind_of_change(spark: SparkSession) -> None:
    """Otherwise the test above would show little."""
    logs = {seed: RandomLog(seed, STEPS).log.batches for seed in SEEDS}
    inputs = inputs_of(spark, entries_of(spark, logs))
    rows = rows_of(commits.JOB, inputs, retention_minutes=RETENTION_MINUTES)
    kinds = {"first", "forward", "back", "same", "reset", "deleted", "expired", None}
    assert {row["kind"] for row in rows} == kinds
    assert {row["outcome"] for row in rows} == {"committed", "aborted", "open"}
    assert {row["actor"] for row in rows} == {actor.value for actor in Actor}
    overtaken = [row for row in rows if row["outcome"] == "committed" and not row["effective"]]
    assert len(overtaken) >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_are_what_offset_fetch_answered_at_three_instants(
    spark: SparkSession, seed: int
) -> None:
    made = RandomLog(seed, STEPS)
    inputs = inputs_of(spark, entries_of(spark, {0: made.log.batches}))
    asked = [(instant, {"at": str(instant.time_ms)}) for instant in made.instants]
    for instant, options in [*asked, (made.instants[-1], {})]:
        rows = rows_of(offsets.JOB, inputs, **options)
        found = {
            (row["group"], row["topic"], row["partition"]): (
                row["offset"],
                row["leader_epoch"],
                row["metadata"],
            )
            for row in rows
        }
        assert len(found) == len(rows)
        assert found == instant.answer
        pending = {(row["group"], row["topic"], row["partition"]) for row in rows if row["pending"]}
        assert pending == instant.pending
    assert made.instants[-1].answer
