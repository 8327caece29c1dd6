"""What is shown of a log, and of which part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.logtools.dump import Selection, dump_lines, parse_types
from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.segments import SegmentSource, StoreSource
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.schema import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    Record,
)
from groupd.storage.open import create_reader
from tests.unit.logtools.harness import (
    HOME,
    ORDERS_ID,
    TIME_MS,
    G,
    batch,
    classic,
    commit,
    consumer,
    gone,
    make_store,
    marker,
    pair,
    write_segment,
)
from tests.unit.logtools.share_logs import share_group


def test_types() -> None:
    assert parse_types("offset-commit, marker") == {"offset-commit", "marker"}
    assert parse_types(None) == frozenset()
    with pytest.raises(LogToolError, match="--type offsets: must be one of legacy-offset-commit"):
        parse_types("offsets")


async def lines(
    path: Path, selection: Selection | None = None, *, as_json: bool = False, **where: Any
) -> list[str]:
    source = SegmentSource(path)
    chosen = where.get("partitions")
    return [
        line
        async for line in dump_lines(
            [source], lambda: selection or Selection(), chosen, as_json=as_json
        )
    ]


MIXED = [
    batch(0, commit(1), commit(2, "other")),
    batch(2, commit(9), producer=7),
    batch(3, commit(9, "other"), producer=8),
    marker(4, 8, commit=False),
    marker(5, 7, commit=True),
    batch(6, gone(classic()), time_ms=TIME_MS + 1000),
]


async def offsets(path: Path, selection: Selection) -> list[int]:
    return [json.loads(line)["offset"] for line in await lines(path, selection, as_json=True)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6]),
        ({"groups": frozenset({G})}, [0, 2, 5, 6]),
        ({"groups": frozenset({"other"})}, [1, 3, 4]),
        ({"types": frozenset({"marker", "group-metadata"})}, [4, 5, 6]),
        ({"from_ms": TIME_MS + 1}, [6]),
        ({"from_ms": TIME_MS, "to_ms": TIME_MS + 1000}, [0, 1, 2, 3, 4, 5]),
        ({"groups": frozenset({G}), "types": frozenset({"marker"})}, [5]),
    ],
)
async def test_what_is_selected(
    tmp_path: Path, selection: dict[str, Any], expected: list[int]
) -> None:
    """Markers go with the groups whose transactions they end."""
    write_segment(tmp_path, HOME, *MIXED)
    assert await offsets(tmp_path, Selection(**selection)) == expected


@pytest.mark.parametrize("from_ms", [TIME_MS, TIME_MS + 1, TIME_MS + 1000, TIME_MS + 1001])
async def test_a_store_shows_the_same_part_as_its_segments(tmp_path: Path, from_ms: int) -> None:
    await make_store(tmp_path / "a", {HOME: MIXED})
    write_segment(tmp_path / "k", HOME, *MIXED)
    reader = create_reader(None, tmp_path / "a")
    await reader.start()
    found = [
        line
        async for line in dump_lines(
            [StoreSource(reader)], lambda: Selection(from_ms=from_ms), None, as_json=True
        )
    ]
    await reader.close()
    assert found == await lines(tmp_path / "k", Selection(from_ms=from_ms), as_json=True)


async def test_lines_for_people(tmp_path: Path) -> None:
    write_segment(
        tmp_path,
        3,
        batch(0, commit(42, "a group", partition=3), gone(commit(0, G)), producer=7),
        marker(2, 7, commit=True),
        encode_batch(3, 0, TIME_MS, [(b"\x00\x11\x00\x02s1", b"\x00\x00"), (b"\x00\x01", b"x")]),
    )
    commit_line, tombstone, end, streams, bad = await lines(tmp_path)
    place, when = "__consumer_offsets-3@", "2023-11-14T22:13:20.000Z"
    assert commit_line == (
        f'{place}0 {when} offset-commit group="a group" topic=orders partition=3 -> offset=42 '
        f"leaderEpoch=5 metadata=m commitTimestamp={when} expireTimestamp=-1 "
        "topicId=ABEiM0RVZneImaq7zN3u_w transaction=7/0"
    )
    assert tombstone == (
        f"{place}1 {when} offset-commit group=g0 topic=orders partition=0 -> <deleted> "
        "transaction=7/0"
    )
    assert end == f"{place}2 {when} marker COMMIT coordinatorEpoch=3 transaction=7/0"
    assert (
        streams == f"{place}3 {when} streams-group-metadata group=s1 key=<6 bytes> value=<2 bytes>"
    )
    assert bad.startswith(f"{place}4 {when} offset-commit key=<2 bytes> value=<1 bytes> ERROR ")


async def test_json_has_the_shape_of_the_formatters(tmp_path: Path) -> None:
    write_segment(tmp_path, 3, batch(0, commit(42)))
    (line,) = await lines(tmp_path, as_json=True)
    assert json.loads(line) == {
        "log": "__consumer_offsets-3",
        "partition": 3,
        "offset": 0,
        "timestamp": TIME_MS,
        "type": "offset-commit",
        "tombstone": False,
        "key": {"type": 1, "data": {"group": G, "topic": "orders", "partition": 0}},
        "value": {
            "version": 4,
            "data": {
                "offset": 42,
                "leaderEpoch": 5,
                "metadata": "m",
                "commitTimestamp": TIME_MS,
                "expireTimestamp": -1,
                "topicId": "ABEiM0RVZneImaq7zN3u_w",
            },
        },
    }


EVERY_TYPE = [
    classic(),
    *consumer(),
    *share_group(),
    Record(
        ConsumerGroupTargetMemberKey(G, "m1"),
        ConsumerGroupTargetMemberValue((AssignedTopic(ORDERS_ID, (0, 2)),)),
    ),
    Record(ConsumerGroupRegexKey(G, "o.*"), ConsumerGroupRegexValue(("orders",), 3, TIME_MS)),
    Record(
        ConsumerGroupMemberMetadataKey(G, "m2"),
        ConsumerGroupMemberMetadataValue(
            None,
            "rack",
            "c",
            "/h",
            (),
            "o.*",
            500,
            "uniform",
            ClassicMemberMetadata(6000, (ClassicProtocol("range", b"\x00"),)),
        ),
    ),
]


@pytest.mark.parametrize("record", EVERY_TYPE, ids=lambda record: type(record.key).__name__)
async def test_every_type_comes_back_from_json(tmp_path: Path, record: Record) -> None:
    from groupd.coordinator.logtools.record_json import record_of

    write_segment(tmp_path, HOME, batch(0, record))
    (line,) = await lines(tmp_path, as_json=True)
    found = json.loads(line)
    assert record_of(found["key"], found["value"]) == record
    assert found["key"]["type"] == int.from_bytes(pair(record)[0][:2], "big")


async def test_a_partition_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_segment(tmp_path, 3, batch(0, commit(42)))
    with pytest.raises(LogToolError, match=r"--partition 5: there is no such log; there are \[3\]"):
        await lines(tmp_path, partitions=[5])


@pytest.mark.parametrize("which", ["file", "partition", "root"])
async def test_a_place_may_be_a_file_or_a_directory(tmp_path: Path, which: str) -> None:
    path = write_segment(tmp_path, 3, batch(0, commit(42)))
    place = {"file": path, "partition": path.parent, "root": tmp_path}[which]
    (line,) = await lines(place)
    assert line.startswith("__consumer_offsets-3@0 ")


async def test_places_that_hold_no_log_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogToolError, match="holds no __consumer_offsets-<n> directory"):
        SegmentSource(tmp_path)
    with pytest.raises(LogToolError, match="is neither a segment file nor a directory"):
        SegmentSource(tmp_path / "nothing")
