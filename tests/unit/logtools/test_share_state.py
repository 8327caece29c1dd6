"""The log of share groups' state in `groupd log`: what is shown of it, what must hold in it, and
what of it moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupd.coordinator.logtools.dump import Selection, dump_lines
from groupd.coordinator.logtools.entries import LogToolError, entries_of
from groupd.coordinator.logtools.exporting import ExportOptions, export_log
from groupd.coordinator.logtools.findings import Counts, Finding
from groupd.coordinator.logtools.importing import ImportOptions, plan_import, write_plan
from groupd.coordinator.logtools.latest import Kept, Tally, latest_of
from groupd.coordinator.logtools.logs import LOGS, SHARE_STATE_LOG
from groupd.coordinator.logtools.record_json import id_text, latest_of_json
from groupd.coordinator.logtools.segments import SegmentSource, StoreSource
from groupd.coordinator.logtools.share_state import (
    LatestState,
    shard_of,
)
from groupd.coordinator.logtools.topic_ids import ForeignTopic
from groupd.coordinator.logtools.verify import verify_segments, verify_store
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.schema import (
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberValue,
)
from groupd.protocol.records.share_state_records import decode_record, encode_record
from groupd.storage.log import StoredTopic
from groupd.storage.open import create_reader, create_store
from tests.support.share_state_logs import PARTITIONS, coordinator_at_random
from tests.unit.logtools.harness import (
    HOME,
    ORDERS_ID,
    TIME_MS,
    G,
    batch,
    classic,
    make_store,
    pair,
    write_segment,
)
from tests.unit.logtools.share_logs import (
    PLACE,
    StateRecord,
    fill_state,
    home_of,
    no_state,
    share_group,
    snapshot,
    state_batch,
    update,
    write_state,
)

HERE_ID = bytes.fromhex("aa" * 16)
WHERE = f"{G}:{id_text(ORDERS_ID)}:0"

LIFE = [
    snapshot(0, -1),
    update(0, 0, (0, 4, 2, 1), (5, 9, 0, 1), complete=5),
    update(0, 5, (5, 9, 0, 2)),
    snapshot(1, 5, (5, 9, 0, 3), (10, 11, 4, 1), complete=2),
    update(1, 12),
]


async def lines(path: Path, **selected: frozenset[str]) -> list[str]:
    sources = [SegmentSource(path, log) for log in LOGS]
    return [
        line
        async for line in dump_lines(sources, lambda: Selection(**selected), None, as_json=False)
    ]


# Shown


async def test_lines_for_people(tmp_path: Path) -> None:
    write_segment(tmp_path, HOME, batch(0, classic()))
    write_state(tmp_path, 7, state_batch(0, snapshot(0, 5, (5, 9, 0, 3)), no_state()))
    first, second, third = await lines(tmp_path)
    place, when = "__share_group_state-7@", "2023-11-14T22:13:20.000Z"
    assert first.startswith(f"__consumer_offsets-{HOME}@0")
    assert second == (
        f"{place}0 {when} share-snapshot groupId=g0 topicId={id_text(ORDERS_ID)} partition=0 -> "
        f"snapshotEpoch=0 stateEpoch=2 leaderEpoch=0 startOffset=5 createTimestamp={when} "
        f'writeTimestamp={when} stateBatches=[{{"firstOffset": 5, "lastOffset": 9, '
        '"deliveryState": 0, "deliveryCount": 3}] deliveryCompleteCount=0'
    )
    assert third == (
        f"{place}1 {when} share-snapshot groupId=g0 topicId={id_text(ORDERS_ID)} partition=0 -> "
        "<deleted>"
    )


async def test_what_is_selected(tmp_path: Path) -> None:
    write_segment(tmp_path, HOME, batch(0, classic()))
    other = PLACE._replace(group_id="other")
    write_state(tmp_path, 7, state_batch(0, *LIFE[:2], snapshot(0, 1, key=other)))
    assert len(await lines(tmp_path, groups=frozenset({G}))) == 3
    assert len(await lines(tmp_path, types=frozenset({"share-update"}))) == 1
    (alone,) = await lines(tmp_path / "__share_group_state-7", groups=frozenset({"other"}))
    assert alone.startswith("__share_group_state-7@2")


async def test_a_record_of_another_type_or_damaged_is_shown_as_it_is(tmp_path: Path) -> None:
    damaged = (encode_record(*LIFE[1])[0], b"\x00\x00")
    strange = encode_batch(0, 0, TIME_MS, [(b"\x00\x07x", b""), damaged])
    write_state(tmp_path, 7, strange)
    unknown, bad = await lines(tmp_path)
    assert unknown.endswith("type-7 key=<3 bytes> value=<0 bytes>")
    assert "share-update group=g0 key=" in bad
    assert "ERROR state of" in bad


# Checked


def reasons(directory: Path, *records: StateRecord) -> list[str]:
    write_state(directory, home_of(), state_batch(0, *records))
    found: list[Finding] = []
    verify_segments(directory, None, found.append)
    return [f"{one.offset}: {one.reason}" for one in found]


def test_a_sound_log_has_no_findings(tmp_path: Path) -> None:
    """An initialization with a new epoch begins anew, and so does one after a tombstone."""
    again = [snapshot(2, 3, state_epoch=3), update(2, 4), no_state(), snapshot(0, 0)]
    # Before Kafka 4.5 an altered offset keeps the state epoch.
    altered = [snapshot(1, 9), snapshot(2, 4)]
    write_state(tmp_path, home_of(), state_batch(0, *LIFE, *again, *altered))
    found: list[Finding] = []
    counts = verify_segments(tmp_path, None, found.append)
    assert found == []
    assert (counts.logs, counts.records, counts.share_partitions) == (1, 11, 1)


def test_what_the_coordinator_writes_is_sound(tmp_path: Path) -> None:
    bench = coordinator_at_random(1)
    homes = {home_of(key) for key, _ in bench.log}
    for home in homes:
        mine = [record for record in bench.log if home_of(record[0]) == home]
        write_state(tmp_path, home, state_batch(0, *mine))
    found: list[Finding] = []
    counts = verify_segments(tmp_path, None, found.append)
    assert found == []
    assert counts.share_partitions == PARTITIONS
    assert counts.records == len(bench.log) > 300


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (update(0, 12), "an update of PLACE names the snapshot 0, the latest is 1"),
        (update(1, 11), "the start offset of PLACE falls from 12 to 11"),
        (snapshot(2, 11, (11, 11, 0, 1)), "the start offset of PLACE falls from 12 to 11"),
        (snapshot(1, 12), "the snapshot epoch of PLACE goes from 1 to 1"),
        (snapshot(2, 12, state_epoch=1), "the state epoch of PLACE falls from 2 to 1"),
        (update(1, 12, leader_epoch=-2), "the leader epoch of PLACE falls from 0 to -2"),
        (update(1, 12, (14, 13, 2, 1)), "PLACE: the batch 14 to 13 ends before it begins"),
        (
            update(1, 12, (11, 13, 2, 1)),
            "PLACE: the batch 11 to 13 begins before the start offset 12",
        ),
        (
            update(1, 12, (14, 15, 2, 1), (15, 16, 0, 1)),
            "PLACE: the batch 15 to 16 stands behind offset 15",
        ),
        (
            update(1, 12, (14, 15, 1, 1)),
            "PLACE: the batch 14 to 15 has the state 1, which is never stored",
        ),
        (update(1, 12, (14, 15, 0, -1)), "PLACE: the batch 14 to 15 has the delivery count -1"),
    ],
)
def test_what_must_not_be(tmp_path: Path, record: StateRecord, reason: str) -> None:
    assert reasons(tmp_path, *LIFE, record) == [f"5: {reason.replace('PLACE', WHERE)}"]


def test_updates_need_a_snapshot_unless_it_was_pruned(tmp_path: Path) -> None:
    assert reasons(tmp_path / "pruned", *LIFE[1:]) == []
    assert reasons(tmp_path / "never", update(3, 5), update(3, 6)) == [
        f"0: {WHERE} has updates and no snapshot"
    ]


def test_a_record_that_does_not_decode_is_found(tmp_path: Path) -> None:
    strange = encode_batch(0, 0, TIME_MS, [(b"\x00\x07x", b""), (b"\x00\x01", b"")])
    write_state(tmp_path, 7, strange)
    found: list[Finding] = []
    verify_segments(tmp_path, None, found.append)
    unknown, damaged = map(str, found)
    assert unknown == (
        "__share_group_state-7@0: a record of type type-7 does not belong into this log"
    )
    assert damaged.startswith("__share_group_state-7@1: share-update does not decode: key of")


async def test_a_store_knows_where_a_share_partition_belongs(tmp_path: Path) -> None:
    await fill_state(tmp_path, home_of() + 1, state_batch(0, *LIFE))
    findings, counts = await verified(tmp_path)
    assert [finding.reason for finding in findings] == [
        f"{WHERE} belongs to partition {home_of()} of 50"
    ] * len(LIFE)
    assert counts.share_partitions == 1


async def verified(directory: Path) -> tuple[list[Finding], Counts]:
    found: list[Finding] = []
    reader = create_reader(None, directory)
    await reader.start()
    try:
        return found, await verify_store(reader, found.append)
    finally:
        await reader.close()


# Moved


async def test_export_copies_the_log_of_chosen_groups(tmp_path: Path) -> None:
    other = PLACE._replace(group_id="other")
    await fill_state(tmp_path / "a", 3, state_batch(0, *LIFE[:2], snapshot(0, 1, key=other)))
    reader = create_reader(None, tmp_path / "a")
    await reader.start()
    options = ExportOptions(groups=frozenset({G}), partitions=9)
    done = await export_log(StoreSource(reader, SHARE_STATE_LOG), 50, tmp_path / "out", options)
    await reader.close()
    assert (done.partitions, done.batches, done.records) == (1, 1, 2)
    assert len(await lines(tmp_path / "out")) == 2


async def state_in(source: Path, *groups: str) -> list[Kept]:
    if source.suffix == ".json":
        return latest_of_json(source, frozenset(groups), Tally(), LatestState)
    segments = SegmentSource(source, SHARE_STATE_LOG)
    return await latest_of(segments, frozenset(groups), Tally(), LatestState)


async def test_the_state_is_the_latest_snapshot_and_its_updates(tmp_path: Path) -> None:
    gone, other = PLACE._replace(partition=1), PLACE._replace(group_id="other")
    records = [*LIFE, snapshot(0, 1, key=gone), no_state(gone), snapshot(0, 1, key=other)]
    write_state(tmp_path, 7, state_batch(0, *records))
    assert [one.offset for one in await state_in(tmp_path, G)] == [3, 4]
    assert [one.offset for one in await state_in(tmp_path)] == [3, 4, 7]


async def test_a_json_dump_says_as_much_as_the_segments(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, classic()))
    write_state(tmp_path / "k", 7, state_batch(0, *LIFE, no_state(PLACE._replace(partition=3))))
    sources = [SegmentSource(tmp_path / "k", log) for log in LOGS]
    path = tmp_path / "dump.json"
    found = [line async for line in dump_lines(sources, Selection, None, as_json=True)]
    path.write_text("\n".join(found))
    assert json.loads(found[1])["key"] == {
        "type": 0,
        "data": {"groupId": G, "topicId": id_text(ORDERS_ID), "partition": 0},
    }
    assert await state_in(path) == await state_in(tmp_path / "k")


async def test_a_contradiction_is_not_taken_over(tmp_path: Path) -> None:
    write_state(tmp_path, 7, state_batch(0, *LIFE, update(1, 3)))
    with pytest.raises(LogToolError, match=r"at offset 5: the start offset of .* falls from 12"):
        await state_in(tmp_path)
    write_state(tmp_path / "b", 7, state_batch(0, update(1, 3)))
    with pytest.raises(LogToolError, match=r"at offset 0: .* has updates and no snapshot"):
        await state_in(tmp_path / "b")


async def test_a_share_group_is_sound_and_counted(tmp_path: Path) -> None:
    await make_store(tmp_path, {HOME: [batch(0, *share_group())]})
    findings, counts = await verified(tmp_path)
    assert findings == []
    assert (counts.groups, counts.records) == (1, 6)


async def test_a_share_group_moves_with_the_ids_of_the_topics_here(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, *share_group()))
    write_state(tmp_path / "k", 7, state_batch(0, *LIFE))
    store = create_store(None, tmp_path / "b")
    await store.start()
    await store.put_topic(StoredTopic(HERE_ID, "orders", 6))
    tally = Tally()
    kept = await latest_of(SegmentSource(tmp_path / "k"), frozenset(), tally)
    segments = SegmentSource(tmp_path / "k", SHARE_STATE_LOG)
    state = await latest_of(segments, frozenset(), tally, LatestState)
    topics: dict[str, ForeignTopic] = {}
    plan = await plan_import(kept, tally, topics, store, store.open_many, ImportOptions(), state)
    await write_plan(plan, store)
    await store.close()
    assert plan.groups == {"share Stable": 1}
    assert plan.count == 8
    values = [one.record.value for one in next(iter(plan.records.values()))]
    initialized = next(v for v in values if isinstance(v, ShareGroupStatePartitionsValue))
    assert [one.topic_id for one in initialized.initialized] == [HERE_ID]
    assert initialized.deleting == ((b"\xbb" * 16, "old"),)
    target = next(v for v in values if isinstance(v, ShareGroupTargetMemberValue))
    assert [one.topic_id for one in target.topics] == [HERE_ID]
    moved_keys = [
        decode_record(one.key, one.value)[0] for found in plan.state.values() for one in found
    ]
    assert [key.topic_id for key in moved_keys] == [HERE_ID] * 2
    findings, counts = await verified(tmp_path / "b")
    assert (findings, counts.groups, counts.share_partitions) == ([], 1, 1)


async def moved(directory: Path, state: list[Kept], group: str) -> dict[int, list[StateRecord]]:
    """What a store has after an import of a group with this id and of `state`. Its topic orders has
    another id."""
    store = create_store(None, directory)
    await store.start()
    await store.put_topic(StoredTopic(HERE_ID, "orders", 6))
    key, value = pair(classic(group))
    assert value is not None
    kept = [Kept(group, 0, TIME_MS, key, value)]
    topics = {"orders": ForeignTopic("orders", ORDERS_ID, 6, True)}
    plan = await plan_import(kept, Tally(), topics, store, store.open_many, ImportOptions(), state)
    await write_plan(plan, store)
    await store.close()
    reader = create_reader(None, directory)
    await reader.start()
    source = StoreSource(reader, SHARE_STATE_LOG)
    found: dict[int, list[StateRecord]] = {}
    for partition in await source.partitions():
        async for one in source.batches(partition):
            for entry in entries_of(one, SHARE_STATE_LOG):
                assert entry.state is not None
                found.setdefault(partition, []).append((entry.state.key, entry.state.value))
    await reader.close()
    return found


async def test_state_moves_under_the_ids_of_the_topics_here(tmp_path: Path) -> None:
    write_state(tmp_path / "k", 7, state_batch(0, *LIFE))
    found = await moved(tmp_path / "b", await state_in(tmp_path / "k"), G)
    here = PLACE._replace(topic_id=HERE_ID)
    assert found == {shard_of(here, 50): [(here, LIFE[3][1]), (here, LIFE[4][1])]}
    findings, counts = await verified(tmp_path / "b")
    assert (findings, counts.share_partitions) == ([], 1)


async def test_state_of_a_group_that_is_not_imported_stays_behind(tmp_path: Path) -> None:
    write_state(tmp_path / "k", 7, state_batch(0, *LIFE))
    assert await moved(tmp_path / "b", await state_in(tmp_path / "k"), "other") == {}
