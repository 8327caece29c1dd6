"""Out of one store and into another: what stays byte by byte, what is resolved, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.logtools.dump import Selection, dump_lines
from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.exporting import Exported, ExportOptions, export_log
from groupd.coordinator.logtools.importing import (
    ImportOptions,
    ImportPlan,
    fresh_shard,
    plan_import,
    write_plan,
)
from groupd.coordinator.logtools.latest import Kept, Tally, latest_of
from groupd.coordinator.logtools.record_json import latest_of_json
from groupd.coordinator.logtools.segments import SegmentSource, SegmentWriter, StoreSource
from groupd.coordinator.logtools.topic_ids import described_topics
from groupd.coordinator.runtime.loader import load_shard
from groupd.coordinator.runtime.shard_log import shard_log
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    iter_batches,
    iter_records,
    parse_header,
)
from groupd.protocol.records.batch_builder import encode_batch, pack_batch
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.compression import GZIP
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)
from groupd.storage.log import LogState, StoredTopic
from groupd.storage.open import create_reader, create_store
from tests.unit.logtools.harness import (
    HOME,
    ORDERS_ID,
    PARTITIONS,
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
    read_segments,
    write_segment,
)

HERE_ID = bytes.fromhex("aa" * 16)


async def export(directory: Path, target: Path, **options: Any) -> Exported:
    reader = create_reader(None, directory)
    await reader.start()
    try:
        return await export_log(StoreSource(reader), PARTITIONS, target, ExportOptions(**options))
    finally:
        await reader.close()


async def kept_of(source: Path, *groups: str) -> tuple[list[Kept], Tally]:
    tally = Tally()
    if source.suffix == ".json":
        return latest_of_json(source, frozenset(groups), tally), tally
    return await latest_of(SegmentSource(source), frozenset(groups), tally), tally


async def take_in(source: Path, directory: Path, *groups: str, **options: Any) -> ImportPlan:
    kept, tally = await kept_of(source, *groups)
    store = create_store(None, directory)
    await store.start()
    try:
        plan = await plan_import(
            kept,
            tally,
            described_topics(source),
            store,
            store.open_many,
            ImportOptions(**options),
        )
        await write_plan(plan, store)
        return plan
    finally:
        await store.close()


async def state_of(directory: Path) -> tuple[dict[str, str], dict[tuple[str, str, int], Any]]:
    """Group states, and the stored offset values, as a daemon would load them."""
    reader = create_reader(None, directory)
    await reader.start()
    groups: dict[str, str] = {}
    offsets: dict[tuple[str, str, int], Any] = {}
    for state in await reader.states():
        if not state.name.startswith("__consumer_offsets-") or state.name.endswith(".compacted"):
            continue
        logs = shard_log(state, LogState(f"{state.name}.compacted", 0, 0, 0))
        shard = (await load_shard(fresh_shard, reader, logs)).shard
        for group_id, group in shard.state.groups.items():
            groups[group_id] = f"{group.type_name} {group.state_name()}"
            for topic, partitions in shard.offsets.store.topics(group_id).items():
                for partition, stored in partitions.items():
                    offsets[group_id, topic, partition] = OffsetCommitValue(*stored[:-1])
    await reader.close()
    return groups, offsets


async def dumped(source: Any) -> list[str]:
    return [line async for line in dump_lines([source], Selection, None, as_json=True)]


BATCHES = [
    batch(0, commit(1), commit(2, partition=1)),
    batch(2, commit(9), producer=7),
    batch(3, *consumer()),
    batch(8, gone(commit(2, partition=1)), time_ms=TIME_MS + 5),
    marker(9, 7, commit=True),
]


# Export


async def test_an_export_is_the_log_byte_by_byte(tmp_path: Path) -> None:
    """The worked examples of docs/spec/offsets-and-log.md#5.3 are such batches; see
    tests/unit/records."""
    await make_store(tmp_path / "a", {HOME: BATCHES})
    done = await export(tmp_path / "a", tmp_path / "out", keep_ids=True)
    assert (done.partitions, done.batches, done.records) == (1, 5, 10)
    assert read_segments(tmp_path / "out") == {HOME: b"".join(BATCHES)}
    home = tmp_path / "out" / f"__consumer_offsets-{HOME}"
    assert (home / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    reader = create_reader(None, tmp_path / "a")
    await reader.start()
    assert await dumped(StoreSource(reader)) == await dumped(SegmentSource(tmp_path / "out"))
    await reader.close()


async def test_topic_ids_stay_behind_unless_told_otherwise(tmp_path: Path) -> None:
    """OffsetCommit values become version 3; offsets, times, transactions and the rest stay."""
    await make_store(tmp_path / "a", {HOME: BATCHES})
    await export(tmp_path / "a", tmp_path / "out")
    before = [record for one in BATCHES for record in iter_records(one)]
    data = read_segments(tmp_path / "out")[HOME]
    batches = list(iter_batches(data))
    after = [record for one in batches for record in iter_records(one)]
    assert [(r.offset, r.timestamp_ms, r.key) for r in after] == [
        (r.offset, r.timestamp_ms, r.key) for r in before
    ]
    assert [one.header.attributes for one in batches] == [
        parse_header(one).attributes for one in BATCHES
    ]
    versions = [record.value[:2] for record in after if record.value and record.key]
    assert versions.count(b"\x00\x03") == 3
    assert b"\x00\x04" not in versions
    assert data[len(data) - len(BATCHES[4]) :] == BATCHES[4]


async def test_one_group_leaves_gaps_where_others_were(tmp_path: Path) -> None:
    other = next(id_ for id_ in map(str, range(99)) if partition_for(id_, PARTITIONS) == HOME)
    mixed = [
        batch(0, commit(1), commit(2, other), commit(3, partition=1)),
        batch(3, commit(4, other)),
        batch(4, commit(5)),
    ]
    await make_store(tmp_path / "a", {HOME: mixed})
    done = await export(tmp_path / "a", tmp_path / "out", groups=frozenset({G}), keep_ids=True)
    assert done.batches == 2
    (data,) = read_segments(tmp_path / "out").values()
    first, second = iter_batches(data)
    assert (first.header.base_offset, first.header.last_offset) == (0, 2)
    assert [record.offset for record in iter_records(first)] == [0, 2]
    assert second.payload == mixed[2]


async def test_segments_are_split_by_size(tmp_path: Path) -> None:
    batches = [batch(number, commit(number)) for number in range(5)]
    await make_store(tmp_path / "a", {HOME: batches})
    size = 2 * len(batches[0])
    await export(tmp_path / "a", tmp_path / "out", keep_ids=True, segment_bytes=size)
    files = sorted(path.name for path in (tmp_path / "out").glob("*/*.log"))
    assert files == [f"{offset:020d}.log" for offset in (0, 2, 4)]
    assert read_segments(tmp_path / "out") == {HOME: b"".join(batches)}


async def test_another_partition_count_lays_the_latest_records_out_anew(tmp_path: Path) -> None:
    await make_store(tmp_path / "a", {HOME: BATCHES})
    await export(tmp_path / "a", tmp_path / "out", partitions=7)
    ((partition, data),) = read_segments(tmp_path / "out").items()
    assert partition == partition_for(G, 7)
    (only,) = iter_batches(data)
    assert not only.header.is_transactional
    assert [record.offset for record in iter_records(only)] == list(range(6))
    values = [decode_record(r.key or b"", r.value).value for r in iter_records(only)]
    offset = next(value for value in values if isinstance(value, OffsetCommitValue))
    assert (offset.offset, offset.topic_id) == (9, NO_TOPIC_ID)


def test_two_logs_never_share_a_directory(tmp_path: Path) -> None:
    write_segment(tmp_path, 3, batch(0, commit(1)))
    with pytest.raises(LogToolError, match="has segment files already"):
        SegmentWriter(tmp_path, 3)


# Import


async def test_an_import_gives_the_state_that_the_source_has(tmp_path: Path) -> None:
    await make_store(tmp_path / "a", {HOME: BATCHES})
    await export(tmp_path / "a", tmp_path / "out", keep_ids=True)
    plan = await take_in(tmp_path / "out", tmp_path / "b", create_topics=True, partitions=9)
    assert plan.groups == {"consumer Stable": 1}
    assert await state_of(tmp_path / "b") == await state_of(tmp_path / "a")
    # And what is imported goes round without a change.
    again = tmp_path / "again"
    reader = create_reader(None, tmp_path / "b")
    await reader.start()
    await export_log(StoreSource(reader), 9, again, ExportOptions(keep_ids=True))
    first = await dumped(StoreSource(reader))
    await reader.close()
    await take_in(again, tmp_path / "c", create_topics=True, partitions=9)
    reader = create_reader(None, tmp_path / "c")
    await reader.start()
    assert await dumped(StoreSource(reader)) == first
    await reader.close()


async def test_records_keep_their_times(tmp_path: Path) -> None:
    late = batch(2, commit(3, partition=2), time_ms=TIME_MS + 77)
    write_segment(tmp_path / "k", HOME, batch(0, commit(1), commit(2, partition=1)), late)
    await take_in(tmp_path / "k", tmp_path / "b")
    reader = create_reader(None, tmp_path / "b")
    await reader.start()
    times = [json.loads(line)["timestamp"] for line in await dumped(StoreSource(reader))]
    assert times == [TIME_MS, TIME_MS, TIME_MS + 77]
    await reader.close()


TRANSACTIONS = {
    "OF-50 commit": ([batch(0, commit(5)), batch(1, commit(9), producer=7)], True, 9),
    "OF-50 abort": ([batch(0, commit(5)), batch(1, commit(9), producer=7)], False, 5),
    "OF-51": ([batch(0, commit(9), producer=7), batch(1, commit(5))], True, 5),
    "OF-44": ([batch(0, commit(9), producer=7), batch(1, gone(commit(5)))], True, None),
    "open": ([batch(0, commit(5)), batch(1, commit(9), producer=7)], None, 5),
}


@pytest.mark.parametrize(
    ("batches", "committed", "expected"), TRANSACTIONS.values(), ids=TRANSACTIONS
)
async def test_transactions_are_resolved(
    tmp_path: Path, batches: list[bytes], committed: bool | None, expected: int | None
) -> None:
    end = [] if committed is None else [marker(2, 7, commit=committed)]
    write_segment(tmp_path / "k", HOME, *batches, *end)
    plan = await take_in(tmp_path / "k", tmp_path / "b")
    _, offsets = await state_of(tmp_path / "b")
    found = offsets.get((G, "orders", 0))
    assert (None if found is None else found.offset) == expected
    assert plan.tally.open_records == (committed is None)
    assert plan.tally.aborted == (committed is False)


async def test_compressed_batches_and_old_versions_are_read(tmp_path: Path) -> None:
    """LG-17, LG-18: a legacy key and values v0, v1; GroupMetadata v0."""
    import gzip

    key = b"\x00\x00" + pair(commit(1))[0][2:]
    v0 = b"\x00\x00" + (41).to_bytes(8, "big") + b"\x00\x01m" + TIME_MS.to_bytes(8, "big")
    v1 = b"\x00\x01" + v0[2:] + (TIME_MS + 60000).to_bytes(8, "big")
    group = b"\x00\x00\x00\x08consumer" + (3).to_bytes(4, "big") + b"\xff\xff\xff\xff" + bytes(4)
    records = [
        (key, v0),
        (pair(commit(1, partition=1))[0], v1),
        (pair(classic())[0], group),
    ]
    plain = encode_batch(0, 0, TIME_MS, records)
    header = parse_header(plain)
    packed = pack_batch(
        header._replace(attributes=header.attributes & ~CODEC_MASK | GZIP),
        gzip.compress(plain[HEADER_BYTES:]),
    )
    write_segment(tmp_path / "k", HOME, packed)
    plan = await take_in(tmp_path / "k", tmp_path / "b")
    assert plan.groups == {"classic Empty": 1}
    _, offsets = await state_of(tmp_path / "b")
    assert offsets[G, "orders", 0].offset == 41
    assert offsets[G, "orders", 1].expire_timestamp_ms == TIME_MS + 60000


async def test_a_type_0_record_and_a_type_1_record_are_one_offset(tmp_path: Path) -> None:
    key = b"\x00\x00" + pair(commit(1))[0][2:]
    legacy = encode_batch(1, 0, TIME_MS, [(key, None)])
    write_segment(tmp_path / "k", HOME, batch(0, commit(5)), legacy)
    plan = await take_in(tmp_path / "k", tmp_path / "b")
    assert plan.count == 0


async def test_what_is_not_held_here_is_counted(tmp_path: Path) -> None:
    group = (b"\x00\x11\x00\x02s1", b"\x00\x00")
    member = (b"\x00\x13\x00\x02s1\x00\x01m", b"\x00\x00")
    another = (b"\x00\x11\x00\x02s2", b"\x00\x00")
    future = (b"\x00\x63future", b"\x00\x00")
    strange = encode_batch(0, 0, TIME_MS, [group, member, another, future, pair(commit(1))])
    write_segment(tmp_path / "k", HOME, strange)
    plan = await take_in(tmp_path / "k", tmp_path / "b")
    assert plan.tally.other_groups == {"s1", "s2"}
    assert plan.tally.unknown_types == {"type-99": 1}
    assert plan.count == 1


async def test_damage_is_not_passed_over(tmp_path: Path) -> None:
    damaged = bytearray(batch(0, commit(1)))
    damaged[-2] ^= 1
    write_segment(tmp_path / "k", HOME, bytes(damaged))
    with pytest.raises(LogToolError, match="wrong checksum of the batch at offset 0"):
        await kept_of(tmp_path / "k")
    undecodable = encode_batch(4, 0, 0, [(pair(commit(1))[0], b"\x00\x09")])
    write_segment(tmp_path / "l", HOME, undecodable)
    with pytest.raises(LogToolError, match="at offset 4: unknown value version 9"):
        await kept_of(tmp_path / "l")


async def test_a_batch_cut_off_by_a_crash_is_dropped_only_at_the_end(tmp_path: Path) -> None:
    """LG-05: it does what a broker does when it starts."""
    path = write_segment(tmp_path / "k", HOME, batch(0, commit(1)), batch(1, commit(2)))
    path.write_bytes(path.read_bytes()[:-5])
    kept, _ = await kept_of(tmp_path / "k")
    assert [one.offset for one in kept] == [0]
    write_segment(tmp_path / "k", HOME, batch(2, commit(3)))
    with pytest.raises(LogToolError, match="the file ends 5 bytes before its last batch does"):
        await kept_of(tmp_path / "k")


async def test_logs_of_two_clusters_are_refused(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", 0, batch(0, commit(1)))
    write_segment(tmp_path / "k", 1, batch(0, commit(2)))
    with pytest.raises(LogToolError, match="stands in partitions 0 and 1"):
        await kept_of(tmp_path / "k")


async def test_a_source_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, classic(), *consumer()))
    with pytest.raises(LogToolError, match=f"group {G}: the source contradicts itself"):
        await take_in(tmp_path / "k", tmp_path / "b")
    assert await state_of(tmp_path / "b") == ({}, {})


async def test_groups_that_are_there_are_left_alone(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, commit(5)))
    await take_in(tmp_path / "k", tmp_path / "b")
    write_segment(tmp_path / "l", HOME, batch(0, commit(99), commit(7, "new")))
    with pytest.raises(LogToolError, match="the store has 1 groups already"):
        await take_in(tmp_path / "l", tmp_path / "b")
    with pytest.raises(LogToolError, match="--partitions 9: the store was made with 50"):
        await take_in(tmp_path / "l", tmp_path / "b", merge=True, partitions=9)
    plan = await take_in(tmp_path / "l", tmp_path / "b", merge=True)
    assert plan.kept_here == [G]
    _, offsets = await state_of(tmp_path / "b")
    assert {key: value.offset for key, value in offsets.items()} == {
        (G, "orders", 0): 5,
        ("new", "orders", 0): 7,
    }


async def test_only_the_groups_that_are_asked_for(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, commit(5), commit(7, "new")))
    kept, _ = await kept_of(tmp_path / "k", "new")
    assert [one.group for one in kept] == ["new"]


async def test_a_dry_run_plans_without_a_store(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, commit(5)))
    kept, tally = await kept_of(tmp_path / "k")

    async def none(_: Any) -> dict[str, Any]:
        return {}

    plan = await plan_import(kept, tally, {}, None, none, ImportOptions())
    assert (plan.partitions, plan.count, plan.missing) == (50, 1, ["orders"])


# Topic ids


async def test_offsets_of_a_topic_that_is_not_here_are_kept_by_name(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, commit(5)))
    plan = await take_in(tmp_path / "k", tmp_path / "b")
    assert plan.missing == ["orders"]
    _, offsets = await state_of(tmp_path / "b")
    assert offsets[G, "orders", 0].topic_id == NO_TOPIC_ID


async def test_a_topic_that_is_here_gives_its_id(tmp_path: Path) -> None:
    """Offsets and assignments alike get it."""
    await make_store(tmp_path / "b", topics=[StoredTopic(HERE_ID, "orders", 2)])
    write_segment(tmp_path / "k", HOME, batch(0, commit(5), *consumer()))
    plan = await take_in(tmp_path / "k", tmp_path / "b")
    assert not plan.missing
    _, offsets = await state_of(tmp_path / "b")
    assert offsets[G, "orders", 0].topic_id == HERE_ID
    assignments = [
        value
        for one in plan.records[HOME]
        if isinstance(value := one.record.value, ConsumerGroupCurrentMemberValue)
    ]
    assert [topic.topic_id for topic in assignments[0].assigned] == [HERE_ID]


async def test_an_id_of_a_deleted_topic_stays(tmp_path: Path) -> None:
    """OF-35: offsets of the topic before it was made again must not come back to life."""
    old = Record(
        OffsetCommitKey(G, "orders", 1),
        commit(8).value._replace(topic_id=HERE_ID),  # type: ignore[union-attr]
    )
    write_segment(tmp_path / "k", HOME, batch(0, old), batch(1, commit(5)))
    await take_in(tmp_path / "k", tmp_path / "b")
    _, offsets = await state_of(tmp_path / "b")
    assert offsets[G, "orders", 1].topic_id == HERE_ID
    assert offsets[G, "orders", 0].topic_id == NO_TOPIC_ID


async def test_created_topics_have_the_ids_sizes_and_ends_of_the_source(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, commit(5), commit(3, "other"), *consumer()))
    for number in range(6):
        directory = tmp_path / "k" / f"orders-{number}"
        directory.mkdir()
        (directory / "partition.metadata").write_text(
            "version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w\n"
        )
    unused = tmp_path / "k" / "unused-0"
    unused.mkdir()
    (unused / "partition.metadata").write_text("version: 0\ntopic_id: qqqqqqqqqqqqqqqqqqqqqg\n")
    plan = await take_in(tmp_path / "k", tmp_path / "b", create_topics=True)
    assert plan.created == [StoredTopic(ORDERS_ID, "orders", 6)]
    reader = create_reader(None, tmp_path / "b")
    await reader.start()
    assert await reader.topics() == [StoredTopic(ORDERS_ID, "orders", 6)]
    ends = {state.name: state.next_offset for state in await reader.states()}
    assert ends[f"{ORDERS_ID.hex()}-0"] == 5
    (filled,) = await reader.read(f"{ORDERS_ID.hex()}-0", 0, 1000)
    assert (filled.base_offset, filled.last_offset) == (0, 4)
    assert list(iter_records(filled.payload)) == []
    await reader.close()
    _, offsets = await state_of(tmp_path / "b")
    assert offsets[G, "orders", 0].topic_id == ORDERS_ID


async def test_a_count_below_what_the_groups_use_is_refused(tmp_path: Path) -> None:
    write_segment(tmp_path / "k", HOME, batch(0, commit(5, partition=4)))
    plan = await take_in(
        tmp_path / "k", tmp_path / "b", create_topics=True, topic_partitions={"orders": 12}
    )
    assert plan.created[0].partitions == 12
    with pytest.raises(LogToolError, match="--topic orders:2: the groups use 5 partitions of it"):
        await take_in(
            tmp_path / "k", tmp_path / "c", create_topics=True, topic_partitions={"orders": 2}
        )


# JSON


async def test_a_json_dump_says_as_much_as_the_segments(tmp_path: Path) -> None:
    """Every record type, a transaction and its marker, tombstones, an unheld group."""
    share = encode_batch(10, 0, TIME_MS, [(b"\x00\x11\x00\x02s1", b"\x00\x00")])
    write_segment(tmp_path / "k", HOME, *BATCHES, share, batch(11, classic("g9")))
    lines = await dumped(SegmentSource(tmp_path / "k"))
    path = tmp_path / "dump.json"
    path.write_text("\n".join(lines))
    kept, tally = await kept_of(path)
    expected, _ = await kept_of(tmp_path / "k")
    assert [one.record for one in kept] == [one.record for one in expected]
    assert [one.timestamp_ms for one in kept] == [one.timestamp_ms for one in expected]
    assert tally.other_groups == {"s1"}


async def test_the_formatters_output_has_no_offsets_and_no_line_ends(tmp_path: Path) -> None:
    key = {"type": 1, "data": {"group": G, "topic": "orders", "partition": 0}}
    data = {"offset": 5, "leaderEpoch": 2, "metadata": "", "commitTimestamp": TIME_MS}
    objects = [
        {"key": key, "value": {"version": 3, "data": data}},
        {"key": key, "value": {"version": 3, "data": {**data, "offset": 8}}},
        {"key": {"type": 2, "data": {"group": "gone"}}, "value": None},
        {"key": {"type": 11, "data": {"groupId": "s"}}, "value": None},
    ]
    path = tmp_path / "copy.json"
    path.write_text("".join(json.dumps(one) for one in objects))
    kept, _ = await kept_of(path)
    assert [one.record.value for one in kept] == [
        OffsetCommitValue(offset=8, leader_epoch=2, commit_timestamp_ms=TIME_MS)
    ]
    assert kept[0].timestamp_ms == TIME_MS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{} ", "object 1: 'key'"),
        ('{"key": {"type": 1, "data": {}}, "value": null}', "object 1: no record: TypeError"),
        ('{"key": {"type": 2, "data": {"group": 5}}, "value": {"data": "unknown"}}', "object 1:"),
        ('{"key": ', "is not JSON"),
        ("[1]", "holds more than objects"),
    ],
)
async def test_files_that_hold_something_else_are_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "copy.json"
    path.write_text(text)
    with pytest.raises(LogToolError, match=reason):
        await kept_of(path)


async def test_a_large_object_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    value = {"data": {"offset": 1, "metadata": "x" * 20_000, "commitTimestamp": 5}}
    key = {"type": 1, "data": {"group": G, "topic": "t", "partition": 0}}
    # Larger than what is read at once.
    path.write_text(" " * 60_000 + json.dumps({"key": key, "value": {"version": 3, **value}}))
    (one,), _ = await kept_of(path)
    assert one.record.value == OffsetCommitValue(1, metadata="x" * 20_000, commit_timestamp_ms=5)
