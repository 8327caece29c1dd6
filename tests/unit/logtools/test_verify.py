"""Every finding of `groupd log verify` by damage made for it, and what must not be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.logtools.findings import Counts, Finding
from groupd.coordinator.logtools.verify import verify_segments, verify_store
from groupd.protocol.records.batch import CONTROL, BatchRecord, parse_header
from groupd.protocol.records.batch_builder import (
    empty_batch,
    encode_batch,
    new_header,
    plain_batch,
    rebuild_batch,
)
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    Record,
)
from groupd.storage.log import StoredTopic, StoreRefused
from groupd.storage.open import create_reader
from tests.unit.logtools.harness import (
    HOME,
    LOG,
    ORDERS_ID,
    PARTITIONS,
    TIME_MS,
    G,
    add_row,
    at,
    batch,
    change_log,
    classic,
    commit,
    consumer,
    execute,
    gone,
    make_store,
    marker,
    pair,
    write_segment,
)

HERE = f"{LOG}-{HOME}"
EMPTY_AT_4 = Record(ConsumerGroupMetadataKey(G), ConsumerGroupMetadataValue(4))


async def verified(database: Path) -> tuple[list[Finding], Counts]:
    found: list[Finding] = []
    reader = create_reader(None, database.parent)
    await reader.start()
    try:
        return found, await verify_store(reader, found.append)
    finally:
        await reader.close()


async def reasons(directory: Path, *payloads: bytes) -> list[tuple[int | None, str]]:
    """(offset, reason) of the findings in a store whose home shard has these batches."""
    findings, _ = await verified(await make_store(directory, {HOME: payloads}))
    assert {finding.log for finding in findings} <= {HERE}
    return [(finding.offset, finding.reason) for finding in findings]


def segment_reasons(directory: Path) -> list[str]:
    found: list[Finding] = []
    verify_segments(directory, PARTITIONS, found.append)
    return [str(finding) for finding in found]


async def test_a_sound_store_has_no_findings(tmp_path: Path) -> None:
    batches = [
        batch(0, commit(1), commit(2, partition=1)),
        batch(2, commit(5), producer=9),
        batch(3, *consumer()),
        marker(8, 9, commit=True),
        batch(9, commit(6), producer=9),
    ]
    findings, counts = await verified(await make_store(tmp_path, {HOME: batches}))
    assert findings == []
    assert (counts.logs, counts.batches, counts.records) == (PARTITIONS, 5, 10)
    assert (counts.groups, counts.offsets, counts.open_transactions) == (1, 2, 1)


async def test_what_compaction_leaves_is_sound(tmp_path: Path) -> None:
    """Gaps inside a batch, between the batches of a row, a bare header, a row of nothing."""
    database = await make_store(tmp_path)
    sparse = plain_batch([at(3, commit(1)), at(7, commit(2, partition=1))])
    later = plain_batch([at(12, commit(3))])
    add_row(database, HOME, sparse + later, base=0, last=14, max_timestamp_ms=TIME_MS)
    add_row(database, HOME, b"", base=15, last=19, max_timestamp_ms=-1)
    add_row(database, HOME, empty_batch(20, 25))
    findings, counts = await verified(database)
    assert findings == []
    assert counts.records == 3


# Rows and batches


async def test_a_flipped_byte_is_found_twice(tmp_path: Path) -> None:
    """LG-02: in the row's checksum and in the batch's."""
    database = await make_store(tmp_path, {HOME: [batch(0, commit(1)), batch(1, commit(2))]})
    damaged = bytearray(batch(1, commit(2)))
    damaged[-3] ^= 1
    execute(database, "UPDATE log_batch SET payload = ? WHERE base_offset = 1", bytes(damaged))
    findings, _ = await verified(database)
    assert [str(finding) for finding in findings] == [
        f"{HERE}@1: the row's checksum is wrong",
        f"{HERE}@1: wrong checksum of the batch at offset 1",
    ]


async def test_a_batch_of_a_wrong_length_is_found(tmp_path: Path) -> None:
    database = await make_store(tmp_path)
    add_row(database, HOME, batch(0, commit(1))[:-4], 0, 0, TIME_MS)
    findings, _ = await verified(database)
    assert [finding.reason for finding in findings] == ["batch at byte 0 ends 4 bytes too late"]


async def test_a_batch_with_more_records_than_offsets_is_found(tmp_path: Path) -> None:
    header = new_header(0, 0, TIME_MS, TIME_MS)
    found = await reasons(tmp_path, rebuild_batch(header, [at(0, commit(1)), at(0, commit(2))]))
    assert found == [(0, "2 records up to offset delta 0")]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (0, "0: the batch is missing"),
        (1, "1: nothing up to 1: a batch is missing"),
        (2, "2: nothing up to the log's end at 3"),
    ],
)
async def test_a_missing_row_is_found(tmp_path: Path, base: int, expected: str) -> None:
    batches = [batch(number, commit(number)) for number in range(3)]
    database = await make_store(tmp_path, {HOME: batches})
    execute(database, "DELETE FROM log_batch WHERE base_offset = ?", base)
    findings, _ = await verified(database)
    assert [f"{finding.offset}: {finding.reason}" for finding in findings] == [expected]


async def test_rows_that_overlap_are_found(tmp_path: Path) -> None:
    found = await reasons(tmp_path, batch(0, commit(1), commit(2)), batch(1, commit(3), commit(4)))
    assert found == [
        (1, "the row overlaps the one before, up to 2"),
        (1, "the batch stands behind offset 1"),
    ]


async def test_rows_beyond_the_end_are_found(tmp_path: Path) -> None:
    database = await make_store(tmp_path, {HOME: [batch(0, commit(1)), batch(1, commit(2))]})
    change_log(database, HOME, next_offset=1)
    findings, _ = await verified(database)
    assert [str(finding) for finding in findings] == [
        f"{HERE}@1: batches up to 2 beyond the log's end"
    ]


async def test_a_log_that_starts_behind_its_end_is_found(tmp_path: Path) -> None:
    database = await make_store(tmp_path)
    change_log(database, HOME, start_offset=5)
    findings, _ = await verified(database)
    assert f"{HERE}: starts at 5 and ends at 0" in [str(finding) for finding in findings]


async def test_a_row_with_other_numbers_than_its_batch_is_found(tmp_path: Path) -> None:
    database = await make_store(tmp_path)
    add_row(database, HOME, batch(0, commit(1), commit(2)), last=0, max_timestamp_ms=TIME_MS - 1)
    findings, _ = await verified(database)
    assert [finding.reason for finding in findings] == [
        "the batch has offsets 0 to 1, its row 0 to 0",
        f"the row's largest timestamp is {TIME_MS - 1}, its batch's {TIME_MS}",
    ]


async def test_a_shard_too_many_is_found(tmp_path: Path) -> None:
    database = await make_store(tmp_path)
    change_log(database, HOME, name=f"{LOG}-{PARTITIONS}")
    findings, _ = await verified(database)
    assert [str(finding) for finding in findings] == [
        f"{LOG}-{PARTITIONS}: there are only {PARTITIONS} partitions"
    ]


async def test_batches_of_no_log_are_found(tmp_path: Path) -> None:
    database = await make_store(tmp_path, {HOME: [batch(0, commit(1))]})
    execute(database, "DELETE FROM log WHERE name = ?", HERE)
    findings, _ = await verified(database)
    assert [str(finding) for finding in findings] == ["store: 1 batches belong to no log"]


async def test_damage_of_the_small_tables_is_found(tmp_path: Path) -> None:
    topics = [StoredTopic(ORDERS_ID, "orders", 2)]
    database = await make_store(tmp_path, {HOME: [batch(0, commit(1))]}, topics)
    execute(database, "UPDATE log SET owner_epoch = 99 WHERE name = ?", HERE)
    execute(database, "UPDATE topic SET partitions = 3")
    execute(database, "UPDATE config_override SET value = '5'")
    findings, _ = await verified(database)
    assert {finding.log for finding in findings} == {"store"}
    assert [finding.reason for finding in findings] == [
        f"log {HERE}: its row, with log end 1, has a wrong checksum",
        "table topic: the row of 'orders' has a wrong checksum",
        "table config_override: the row of 'offsets.topic.num.partitions' has a wrong checksum",
    ]


async def test_a_row_of_another_type_ends_its_log_only(tmp_path: Path) -> None:
    database = await make_store(tmp_path, {HOME: [batch(0, commit(1))]})
    execute(database, "UPDATE log_batch SET payload = 'text'")
    findings, counts = await verified(database)
    assert findings[0].log == HERE
    assert "a row is no batch" in findings[0].reason
    assert counts.logs == PARTITIONS


async def test_a_damaged_database_page_is_found(tmp_path: Path) -> None:
    """The integrity check sees that an index has lost an entry."""
    database = await make_store(tmp_path, {HOME: [batch(0, commit(1)), batch(1, commit(2))]})
    page = 4096
    raw = bytearray(database.read_bytes())
    needle = bytes.fromhex("018bcfe56800")
    index = next(
        start
        for start in range(0, len(raw), page)
        if raw[start] == 10 and needle in raw[start : start + page]
    )
    where = raw.index(needle, index)
    raw[where + 5] ^= 1
    database.write_bytes(bytes(raw))
    findings, _ = await verified(database)
    assert any(
        finding.log == "store" and finding.reason.startswith("integrity check: ")
        for finding in findings
    )


# Records


def one_record(base: int, last: int, records: list[BatchRecord], max_ms: int = TIME_MS) -> bytes:
    return rebuild_batch(new_header(base, last, TIME_MS, max_ms), records)


@pytest.mark.parametrize(
    ("payload", "offset", "reason"),
    [
        pytest.param(
            one_record(0, 2, [at(1, commit(1)), at(1, commit(2))]),
            1,
            "the record stands behind offset 1",
            id="order",
        ),
        pytest.param(
            one_record(0, 1, [at(2, commit(1))]),
            2,
            "the record lies beyond its batch, which ends at 1",
            id="beyond",
        ),
        pytest.param(
            one_record(0, 0, [at(0, commit(1), TIME_MS + 1)]),
            0,
            f"timestamp {TIME_MS + 1} is above the batch's {TIME_MS}",
            id="late",
        ),
        pytest.param(
            one_record(0, 0, [at(0, commit(1), -2)]), 0, "timestamp -2 is no time", id="no time"
        ),
        pytest.param(
            one_record(0, 0, [at(0, commit(1))], TIME_MS + 5),
            0,
            f"the batch's largest timestamp is {TIME_MS + 5}, its records' {TIME_MS}",
            id="largest",
        ),
        pytest.param(
            encode_batch(0, 0, TIME_MS, [(None, b"x")]),
            0,
            "unreadable does not decode: a record without a key",
            id="no key",
        ),
        pytest.param(
            encode_batch(0, 0, TIME_MS, [(b"\x00\x63what", b"")]),
            0,
            "unknown record type 99",
            id="LG-15",
        ),
        pytest.param(
            encode_batch(0, 0, TIME_MS, [(b"x", b"")]),
            0,
            "unreadable does not decode: a record key of 1 bytes",
            id="short key",
        ),
    ],
)
async def test_a_bad_record_is_found(
    tmp_path: Path, payload: bytes, offset: int, reason: str
) -> None:
    found = await reasons(tmp_path, payload)
    assert (offset, reason) in found
    assert len(found) == (2 if reason.endswith("is no time") else 1)


async def test_lg_16_an_unknown_value_version_is_found(tmp_path: Path) -> None:
    key, _ = pair(commit(1))
    ((offset, reason),) = await reasons(tmp_path, encode_batch(0, 0, 0, [(key, b"\x00\x05")]))
    assert offset == 0
    assert reason.startswith("offset-commit does not decode: unknown value version 5 for ")


async def test_control_batches_are_looked_into(tmp_path: Path) -> None:
    cut = encode_batch(0, 0, TIME_MS, [(b"\x00", b"")], 9, 0, -1, transactional=True, control=True)
    plain = encode_batch(1, 0, TIME_MS, [(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")])
    header = parse_header(plain)
    alone = rebuild_batch(
        header._replace(attributes=CONTROL),
        [BatchRecord(1, TIME_MS, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")],
    )
    (bad, outside) = await reasons(tmp_path, cut, alone)
    assert bad[0] == 0
    assert bad[1].startswith("control record at 0: ")
    assert outside == (1, "a control batch outside of a transaction")


# Replay


async def test_a_group_in_the_wrong_partition_is_found_once(tmp_path: Path) -> None:
    other = (HOME + 1) % PARTITIONS
    database = await make_store(tmp_path, {other: [batch(0, commit(1), commit(2))]})
    findings, _ = await verified(database)
    assert [str(finding) for finding in findings] == [
        f"{LOG}-{other}@0: group {G} belongs to partition {HOME} of {PARTITIONS}"
    ]


async def test_lg_21_a_fatal_tombstone_is_found_and_the_rest_is_still_checked(
    tmp_path: Path,
) -> None:
    """docs/spec/offsets-and-log.md#5.2: the group's tombstone while a member lives. The group's
    later records would fail too and are passed over; another group's are not."""
    other = next(id_ for id_ in map(str, range(99)) if partition_for(id_, PARTITIONS) == HOME)
    found = await reasons(
        tmp_path,
        batch(0, *consumer()),
        batch(5, gone(EMPTY_AT_4), gone(EMPTY_AT_4)),
        batch(7, classic(other), consumer(other)[1]),
    )
    assert [offset for offset, _ in found] == [5, 8]
    assert "cannot be applied: group g0 is deleted with 1 members" in found[0][1]
    assert f"cannot be applied: group {other} is a classic group" in found[1][1]


TOMBSTONES = {
    "member before its assignment": (
        [consumer()[0]],
        f"member m0 of group {G} is removed at epoch 4",
    ),
    "target epoch before targets": (
        [consumer()[3]],
        f"the target epoch of group {G} is dropped before its targets",
    ),
    "member before its target": (
        [consumer()[4], consumer()[0]],
        f"member m0 of group {G} is removed with a target",
    ),
}


@pytest.mark.parametrize(("records", "reason"), TOMBSTONES.values(), ids=TOMBSTONES)
async def test_tombstones_in_the_wrong_order_are_found(
    tmp_path: Path, records: list[Record], reason: str
) -> None:
    """docs/spec/offsets-and-log.md#5.2."""
    tombstones = [gone(record) for record in records]
    ((offset, found),) = await reasons(tmp_path, batch(0, *consumer()), batch(5, *tombstones))
    assert offset == 4 + len(tombstones)
    assert f"cannot be applied: {reason}" in found


async def test_epochs_that_fall_are_found(tmp_path: Path) -> None:
    lower = [
        Record(ConsumerGroupTargetMetadataKey(G), ConsumerGroupTargetMetadataValue(3)),
        Record(ConsumerGroupMetadataKey(G), ConsumerGroupMetadataValue(3)),
    ]
    group = [EMPTY_AT_4, consumer()[3]]
    assert await reasons(tmp_path, batch(0, *group), batch(2, *lower)) == [
        (2, f"the target epoch of group {G} falls from 4 to 3"),
        (3, f"the group epoch of group {G} falls from 4 to 3"),
    ]


async def test_a_group_made_anew_may_start_low(tmp_path: Path) -> None:
    target = consumer()[3]
    records = [EMPTY_AT_4, target, gone(target), gone(EMPTY_AT_4), *consumer(epoch=2)]
    assert await reasons(tmp_path, batch(0, *records)) == []


async def test_a_member_that_goes_back_is_found(tmp_path: Path) -> None:
    back = ConsumerGroupCurrentMemberValue(2, 3, 0)
    record = Record(ConsumerGroupCurrentMemberKey(G, "m0"), back)
    assert await reasons(tmp_path, batch(0, *consumer()), batch(5, record)) == [
        (5, f"a member of group {G} goes from epoch 3 to 2")
    ]


async def test_epochs_that_contradict_each_other_in_the_end_are_found(tmp_path: Path) -> None:
    records = [
        consumer(epoch=9)[4],
        consumer(epoch=8)[3],
        Record(ConsumerGroupMetadataKey(G), ConsumerGroupMetadataValue(7)),
        Record(ConsumerGroupTargetMemberKey(G, "who"), ConsumerGroupTargetMemberValue()),
    ]
    assert await reasons(tmp_path, batch(0, *records)) == [
        (None, f"group {G}: target epoch 8 is above group epoch 7"),
        (None, f"group {G}: member m0 is at epoch 9, above target epoch 8"),
        (None, f"group {G}: has targets for who, who are no members"),
    ]


# Segment files


def test_sound_segments_have_no_findings(tmp_path: Path) -> None:
    """Gaps are the broker's right, and so is room of zeros at the end."""
    path = write_segment(tmp_path, HOME, batch(3, commit(1)), batch(9, commit(2)))
    path.write_bytes(path.read_bytes() + bytes(500))
    assert segment_reasons(tmp_path) == []


def test_damaged_segments_are_found(tmp_path: Path) -> None:
    flipped = bytearray(batch(4, commit(2)))
    flipped[-3] ^= 1
    write_segment(tmp_path, HOME, batch(3, commit(1)), bytes(flipped), batch(3, commit(3)))
    path = write_segment(tmp_path, HOME, batch(9, commit(4)), batch(10, commit(5)))
    path.write_bytes(path.read_bytes()[:-7])
    size = len(batch(9, commit(4)))
    assert segment_reasons(tmp_path) == [
        f"{HERE}@4: wrong checksum of the batch at offset 4",
        f"{HERE}@3: the batch stands behind offset 3",
        f"{HERE}: {path.name}, byte {size}: the file ends 7 bytes before its last batch does",
    ]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x00" * 8 + b"\x7f\xff\xff\xff" + b"\x00" * 4 + b"\x02" + b"\x01" * 44, "batch length"),
        (b"\x00" * 8 + b"\x00\x00\x00\x01" + b"\x00" * 4 + b"\x02" + b"\x01" * 44, "batch length"),
        (b"\x00" * 16 + b"\x01" + b"\x01" * 44, "magic 1"),
        (b"\x01\x02", "2 bytes at byte"),
    ],
    ids=["huge", "tiny", "old format", "stub"],
)
def test_what_cannot_be_followed_ends_the_file(tmp_path: Path, tail: bytes, reason: str) -> None:
    path = write_segment(tmp_path, HOME, batch(3, commit(1)))
    path.write_bytes(path.read_bytes() + tail)
    (found,) = segment_reasons(tmp_path)
    assert found.startswith(f"{HERE}: {path.name}")
    assert reason in found


def test_a_batch_below_its_files_name_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, HOME, batch(3, commit(1)))
    path.rename(path.with_name(f"{5:020d}.log"))
    assert segment_reasons(tmp_path) == [f"{HERE}@3: the batch stands in {5:020d}.log, at byte 0"]


# What cannot be verified


async def test_stores_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="there is no such store"):
        await verified(tmp_path / "groupd.sqlite")
    database = await make_store(tmp_path / "newer")
    execute(database, "UPDATE meta SET schema_version = 99")
    with pytest.raises(StoreRefused, match="schema version 99 is newer"):
        await verified(database)
    execute(database, "UPDATE meta SET schema_version = 0")
    with pytest.raises(StoreRefused, match="schema version 0 is older"):
        await verified(database)
    text = tmp_path / "text" / "groupd.sqlite"
    text.parent.mkdir()
    text.write_text("no database, " * 100)
    with pytest.raises(StoreRefused, match="damaged or no SQLite database"):
        await verified(text)
    with pytest.raises(StoreRefused, match="memory:// holds nothing"):
        create_reader("memory://", tmp_path)
