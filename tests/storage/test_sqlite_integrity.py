"""Checksums of rows, their migration, and the note of what was acknowledged."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.storage.checksums import check_log, check_row, log_sum, row_crc
from groupd.storage.log import (
    Append,
    LogCorrupt,
    Replacement,
    Store,
    StoredBatch,
    StoredTopic,
    StoreRefused,
)
from groupd.storage.open import create_store
from groupd.storage.sqlite_files import AcknowledgedEnds
from groupd.storage.tables import SCHEMA_VERSION

SCHEMA_1 = Path(__file__).with_name("schema_1.sql")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "groupd.sqlite"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    store = create_store(None, database.parent)
    await store.start()
    yield store
    await store.close()


def sql(database: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    rows = connection.execute(statement).fetchall()
    connection.commit()
    connection.close()
    return rows


async def append(store: Store, name: str, count: int = 1) -> int:
    """Appends batches; the log's new end."""
    state = await store.open(name)
    for base in range(state.next_offset, state.next_offset + count):
        await store.append([Append(name, state.owner_epoch, base, base, 0, b"payload")])
    return state.next_offset + count


# Checksums ----------------------------------------------------------------------------------

_I64 = st.integers(0, 2**62)


@given(_I64, _I64, _I64, _I64, _I64, st.integers(0, 4), st.integers(0, 61))
def test_any_flipped_bit_of_a_log_row_is_found(
    log_id: int, owner: int, start: int, end: int, clean: int, field: int, bit: int
) -> None:
    row_sum = log_sum(log_id, "orders-1", owner, start, end, clean)
    check_log(row_sum, log_id, "orders-1", owner, start, end, clean)
    changed = [log_id, owner, start, end, clean]
    changed[field] ^= 1 << bit
    with pytest.raises(LogCorrupt, match="log orders-1: its row"):
        check_log(row_sum, changed[0], "orders-1", *changed[1:])


@pytest.mark.parametrize("value", [None, b"\x00", "1", 2**70, "\udc00"])
def test_values_of_another_type_are_damage_too(value: object) -> None:
    with pytest.raises(LogCorrupt):
        check_log(0, 1, "a", 1, 0, value, 0)  # type: ignore[arg-type]
    with pytest.raises(LogCorrupt):
        check_log(0, 1, "a", 1, 0, 0, value)  # type: ignore[arg-type]
    with pytest.raises(LogCorrupt):
        check_row("topic", row_crc("a"), value)  # type: ignore[arg-type]


def test_the_border_between_two_values_counts() -> None:
    assert row_crc("ab", "c") != row_crc("a", "bc")


async def test_the_sum_of_a_log_row_keeps_up_with_all_that_changes_it(
    store: Store, database: Path
) -> None:
    await append(store, "a", 5)
    await append(store, "b", 2)
    await store.truncate_before("a", 3)
    await store.open_many(["b", "a", "c"])
    await append(store, "a", 2)
    owner = (await store.open("a")).owner_epoch
    last = (await store.read("a", 0, 1 << 20))[-1].last_offset
    row = StoredBatch(last + 1, last + 3, 0, b"")
    await store.replace(Replacement("a", owner, last + 1, last + 4, (row,), last + 4))
    await store.delete(["b"])
    await store.close()
    rows = sql(
        database,
        "SELECT row_sum, log_id, name, owner_epoch, start_offset, next_offset, clean_offset"
        " FROM log ORDER BY 2",
    )
    assert [row[2:] for row in rows] == [("a", 4, 3, 10, 10), ("c", 1, 0, 0, 0)]
    for row in rows:
        check_log(*row)  # type: ignore[arg-type]
    await store.start()


async def test_log_ids_of_two_stores_differ(store: Store, database: Path, tmp_path: Path) -> None:
    other = create_store(None, tmp_path / "other")
    await other.start()
    for one in (store, other):
        await one.open("a")
    await other.close()
    ids = [
        sql(path, "SELECT log_id FROM log")
        for path in (database, tmp_path / "other" / database.name)
    ]
    assert ids[0] != ids[1]


# Migration ----------------------------------------------------------------------------------


async def test_a_store_of_schema_1_gets_checksums_and_keeps_what_it_has(database: Path) -> None:
    database.parent.mkdir()
    connection = sqlite3.connect(database)
    connection.executescript(SCHEMA_1.read_text())
    connection.close()
    store = create_store(None, database.parent)
    await store.start()
    try:
        assert await store.cluster_id() == "K8KtQ5o4As7F-KdL_O1VSg"
        topic = StoredTopic(bytes(range(16)), "orders", 3, (("retention.ms", "5"),))
        assert await store.topics() == [topic]
        assert await store.configs() == [(4, "", "offsets.topic.num.partitions", "50")]
        assert await store.next_producer_ids(1000) == 2000
        found = await store.read("a", 0, 1000)
        assert [batch.payload for batch in found] == [b"payload-0", b"payload-1"]
        assert await append(store, "a") == 3
        assert (await store.open("b")).start_offset == 1
    finally:
        await store.close()
    assert sql(database, "SELECT schema_version FROM meta") == [(SCHEMA_VERSION,)]
    assert sql(database, "SELECT count(*) FROM log_batch") == [(3,)], "the deleted log is gone"
    await store.start()
    await store.close()


# The note -----------------------------------------------------------------------------------


def test_a_witness_remembers_the_last_two_notes_and_forgets_on_demand(tmp_path: Path) -> None:
    witness = AcknowledgedEnds(tmp_path / "db")
    witness.open()
    assert witness.notes() == []
    for end in range(1, 6):
        witness.note(7, end)
    assert sorted(witness.notes()) == [(7, 4), (7, 5)]
    witness.close()
    witness.note(7, 6)  # nothing, and no error
    witness.open()
    assert sorted(witness.notes()) == [(7, 4), (7, 5)]
    witness.forget()
    assert witness.notes() == []
    witness.close()
    assert witness.notes() == []


@pytest.mark.parametrize("size", [0, 1, 19, 20, 39])
def test_a_witness_that_is_cut_or_garbled_says_nothing_wrong(tmp_path: Path, size: int) -> None:
    witness = AcknowledgedEnds(tmp_path / "db")
    witness.open()
    for end in (1, 2):
        witness.note(7, end)
    witness.close()
    data = witness.path.read_bytes()
    for garbled in (data[:size], data[:size] + b"\xff" * (len(data) - size)):
        witness.path.write_bytes(garbled)
        witness.open()
        assert set(witness.notes()) <= {(7, 1), (7, 2)}
        witness.close()


async def test_a_log_that_lost_its_end_is_refused_with_a_way_out(
    store: Store, database: Path
) -> None:
    older = await append(store, "a", 2)
    await store.close()
    copy = database.read_bytes()
    await store.start()
    newer = await append(store, "a", 3)
    await store.close()
    database.write_bytes(copy)
    with pytest.raises(StoreRefused) as refused:
        await store.start()
    message = str(refused.value)
    assert f"log a ends at offset {older}, but {newer} was acknowledged" in message
    witness = AcknowledgedEnds(database).path
    assert message.endswith(f"delete {witness}")
    witness.unlink()
    await store.start()
    assert (await store.open("a")).next_offset == older


async def test_a_store_that_never_heard_of_the_log_is_refused(store: Store, database: Path) -> None:
    await store.close()
    copy = database.read_bytes()
    await store.start()
    await append(store, "a", 3)
    await store.close()
    database.write_bytes(copy)
    with pytest.raises(StoreRefused, match="a log with 3 records is missing"):
        await store.start()
    database.with_name(database.name + ".acknowledged").unlink()
    await store.start()


async def test_a_log_that_was_deleted_since_is_not_missed(store: Store, database: Path) -> None:
    """That holds too when the power failed before the note was gone. The coordinator's own logs
    stay."""
    await store.open("__consumer_offsets-0")
    await append(store, "a", 3)
    stale = AcknowledgedEnds(database).path.read_bytes()
    await store.delete(["a"])
    await store.close()
    AcknowledgedEnds(database).path.write_bytes(stale)
    await store.start()
    assert (await store.open("a")).next_offset == 0
