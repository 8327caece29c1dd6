"""The demo log tells the stories that its module promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from groupd.coordinator.logtools.findings import Finding
from groupd.coordinator.logtools.segments import partition_files, read_segment
from groupd.coordinator.logtools.verify import verify_segments
from groupd.pipeline.generator.command import UNTIL_MS, generate
from groupd.pipeline.generator.demo import demo_world
from groupd.pipeline.generator.sinks import SegmentSink
from groupd.protocol.records.batch import decode_marker, iter_records, parse_header
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import (
    ConsumerGroupMetadataValue,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)

HOUR_MS = 3_600_000
START_MS = UNTIL_MS - 48 * HOUR_MS
Line = tuple[int, Record]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("demo") / "segments"
    world, plans = demo_world(UNTIL_MS)
    asyncio.run(generate(world, plans, SegmentSink(directory)))
    return directory


@pytest.fixture(scope="module")
def lines(demo: Path) -> list[Line]:
    return sorted(_lines(demo), key=lambda line: line[0])


def _lines(directory: Path) -> Iterator[Line]:
    for paths in partition_files(directory).values():
        for path in paths:
            for raw in read_segment(path):
                if not raw.header.is_control:
                    for record in iter_records(raw.payload):
                        yield record.timestamp_ms, decode_record(record.key or b"", record.value)


def commits(lines: list[Line], group: str, partition: int) -> list[tuple[float, int]]:
    """(hours since the beginning, offset)."""
    return [
        ((at_ms - START_MS) / HOUR_MS, record.value.offset)
        for at_ms, record in lines
        if isinstance(record.key, OffsetCommitKey)
        and isinstance(record.value, OffsetCommitValue)
        and (record.key.group, record.key.partition) == (group, partition)
    ]


def test_it_verifies(demo: Path) -> None:
    found: list[Finding] = []
    counts = verify_segments(demo, 50, found.append)
    assert found == []
    assert (counts.groups, counts.open_transactions) == (5, 0)


def test_recommendations_has_a_storm_and_checkout_has_none(lines: list[Line]) -> None:
    epochs = {}
    for group in ("recommendations", "checkout"):
        epochs[group] = [
            (at_ms - START_MS) / HOUR_MS
            for at_ms, record in lines
            if isinstance(record.value, ConsumerGroupMetadataValue) and record.key.group == group
        ]
    assert sum(35 <= at <= 38 for at in epochs["recommendations"]) >= 120
    assert len(epochs["checkout"]) < 30


def test_invoicing_has_one_partition_that_stands_still(lines: list[Line]) -> None:
    stuck = {offset for at, offset in commits(lines, "invoicing", 5) if at > 21.1}
    moving = {offset for at, offset in commits(lines, "invoicing", 4) if at > 21.1}
    assert len(stuck) == 1  # to the end
    assert len(moving) > 100


def test_warehouse_sync_is_classic_and_goes_back(lines: list[Line]) -> None:
    assert any(
        isinstance(record.value, GroupMetadataValue) and record.key.group == "warehouse-sync"
        for _, record in lines
    )
    offsets = commits(lines, "warehouse-sync", 0)
    falls = [(at, b - a) for (_, a), (at, b) in pairwise(offsets) if b < a]
    assert [int(at) for at, _ in falls] == [8, 31]
    assert falls[1][1] == -150_000


def test_ledger_has_transactions_of_both_outcomes(demo: Path) -> None:
    outcomes = set()
    for paths in partition_files(demo).values():
        for path in paths:
            for raw in read_segment(path):
                if parse_header(raw.payload).is_control:
                    (record,) = iter_records(raw.payload)
                    outcomes.add(decode_marker(record).committed)  # type: ignore[union-attr]
    assert outcomes == {True, False}
