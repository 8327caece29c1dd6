"""Damaged files of a store: found out with a message, or without effect; never served."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from groupd.storage.checksums import batch_crc
from groupd.storage.sqlite_files import AcknowledgedEnds
from tests.crash.damage import (
    FRAME_BYTES,
    PAGE_BYTES,
    WAL_HEADER_BYTES,
    cut,
    database,
    flip,
    overwrite,
    try_damages,
    wal,
)
from tests.crash.golden import Content, Verdict, judge, make

pytestmark = pytest.mark.crash

RANDOM_DAMAGES = 120


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Content, Path, Path]:
    return await make(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def content(stores: tuple[Content, Path, Path]) -> Content:
    return stores[0]


@pytest.fixture
def closed(stores: tuple[Content, Path, Path], tmp_path: Path) -> Path:
    """A copy of a store that was closed."""
    return shutil.copytree(stores[1], tmp_path / "closed")


@pytest.fixture
def killed(stores: tuple[Content, Path, Path], tmp_path: Path) -> Path:
    """A copy of what a killed daemon leaves."""
    return shutil.copytree(stores[2], tmp_path / "killed")


@contextmanager
def sql(directory: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(database(directory), isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def frames(directory: Path) -> int:
    return (wal(directory).stat().st_size - WAL_HEADER_BYTES) // FRAME_BYTES


def refused(verdict: Verdict, *said: str) -> None:
    assert verdict.refused, verdict
    for text in said:
        assert text in verdict.refused


# The judge itself ---------------------------------------------------------------------------


async def test_undamaged_stores_are_whole(closed: Path, killed: Path, content: Content) -> None:
    assert (await judge(closed, content)).whole
    assert (await judge(killed, content)).whole


async def test_the_judge_sees_what_is_wrong(closed: Path, content: Content) -> None:
    more = Content(
        {**content.offsets, "group-3": 1},
        {**content.records, 1: [*content.records[1][:-1], b"?"]},
        "another",
        1 << 40,
    )
    wrong = " ".join((await judge(closed, more)).wrong)
    for what in ("group-3", "events-1", "cluster id", "producer id"):
        assert what in wrong


# At random ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_damage_is_never_served(
    stores: tuple[Content, Path, Path], tmp_path: Path, seed: int
) -> None:
    outcomes = await try_damages(tmp_path, *stores, seed, RANDOM_DAMAGES)
    assert set(outcomes) == {"refused", "failed", "whole"}


# The write-ahead log ------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
async def test_a_flipped_bit_in_the_write_ahead_log(
    killed: Path, content: Content, share: float
) -> None:
    """SQLite drops that frame and all behind it without a word."""
    frame = int(share * frames(killed))
    flip(wal(killed), WAL_HEADER_BYTES + frame * FRAME_BYTES + 100, 3)
    refused(await judge(killed, content), "acknowledged", "restore the data directory from a copy")


@pytest.mark.parametrize("bytes_cut", [1, FRAME_BYTES, 10 * FRAME_BYTES, 20 * FRAME_BYTES + 700])
async def test_a_write_ahead_log_that_is_cut_short(
    killed: Path, content: Content, bytes_cut: int
) -> None:
    cut(wal(killed), wal(killed).stat().st_size - bytes_cut)
    refused(await judge(killed, content), "but", "was acknowledged")


async def test_a_missing_write_ahead_log(killed: Path, content: Content) -> None:
    wal(killed).unlink()
    refused(await judge(killed, content), "was acknowledged")


async def test_a_write_ahead_log_of_another_store(
    killed: Path, content: Content, tmp_path: Path
) -> None:
    _, _, other = await make(tmp_path / "other")
    shutil.copy(wal(other), wal(killed))
    verdict = await judge(killed, content)
    assert verdict.refused or verdict.failures
    assert not verdict.wrong


async def test_an_older_database_in_place_of_the_newer_one(
    closed: Path, killed: Path, content: Content
) -> None:
    """Somebody restored a backup; that is only done knowingly."""
    wal(killed).unlink()
    shutil.copy(AcknowledgedEnds(database(closed)).path, killed)
    refused(await judge(killed, content), "delete ")
    AcknowledgedEnds(database(killed)).path.unlink()
    verdict = await judge(killed, content)
    assert not verdict.refused
    assert verdict.wrong, "the older offsets are served, as was asked for"


@pytest.mark.parametrize("whole_frames", [0, 1])
async def test_lg_05_half_a_transaction_at_the_end_of_the_write_ahead_log_is_dropped(
    killed: Path, content: Content, whole_frames: int
) -> None:
    """What a kill in the middle of a commit leaves: frames without the last one, which commits."""
    with sql(killed) as connection:
        connection.execute("PRAGMA wal_autocheckpoint=0")
        before = wal(killed).stat().st_size
        # Never acknowledged: it did not go through the daemon.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE log SET next_offset = next_offset + 1")
        connection.execute(
            "INSERT INTO log_batch SELECT max(batch_id) + 1, log_id, 9, 9, 0, 0, zeroblob(20000) "
            "FROM log_batch"
        )
        connection.execute("COMMIT")
        torn = wal(killed).read_bytes()[: before + whole_frames * FRAME_BYTES + 1000]
        snapshot = killed.parent / "torn"
        shutil.copytree(killed, snapshot)
    wal(snapshot).write_bytes(torn)
    assert len(torn) > before
    verdict = await judge(snapshot, content)
    assert verdict.whole, verdict


# The database -------------------------------------------------------------------------------


async def test_a_zeroed_first_page(closed: Path, content: Content) -> None:
    overwrite(database(closed), 0, bytes(PAGE_BYTES))
    refused(await judge(closed, content), "damaged or no SQLite database")


async def test_an_empty_database_file(closed: Path, content: Content) -> None:
    """SQLite takes it for a new database; the note of what was acknowledged says otherwise."""
    cut(database(closed), 0)
    refused(await judge(closed, content), "is missing")


async def test_a_database_of_another_program(closed: Path, content: Content) -> None:
    database(closed).unlink()
    with sql(closed) as connection:
        connection.execute("CREATE TABLE photos (id INTEGER)")
    refused(await judge(closed, content), "not a groupd database")


LAST_BATCH = "SELECT max(batch_id) FROM log_batch JOIN log USING (log_id) WHERE name LIKE '__con%'"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE log_batch SET payload = zeroblob(100)", "wrong checksum"),
        ("UPDATE log_batch SET base_offset = base_offset - 1", "wrong checksum"),
        ("DELETE FROM log_batch", "is missing"),
        ("UPDATE log_batch SET last_offset = last_offset + 5", "is missing"),
    ],
    ids=["payload", "overlap", "end missing", "end moved"],
)
async def test_a_damaged_batch_fails_its_shard_only(
    closed: Path, content: Content, statement: str, said: str
) -> None:
    with sql(closed) as connection:
        connection.execute(f"{statement} WHERE batch_id = ({LAST_BATCH})")
    verdict = await judge(closed, content)
    assert not verdict.refused
    assert not verdict.wrong
    assert 0 < len(verdict.failures) < len(content.offsets)
    (error,) = verdict.logged
    assert said in error
    assert "log __consumer_offsets-" in error
    assert "offset" in error


async def test_a_gap_in_the_middle_of_a_log(closed: Path, content: Content) -> None:
    with sql(closed) as connection:
        (log_id,) = connection.execute(
            "SELECT log_id FROM log WHERE name NOT LIKE '__con%' AND next_offset > 0"
        ).fetchone()
        connection.execute("DELETE FROM log_batch WHERE log_id = ? AND base_offset = 4", (log_id,))
    verdict = await judge(closed, content)
    assert [name[:6] for name in verdict.failures] == ["events"]
    assert "the batch at offset 4 is missing" in verdict.logged[0]
    assert not verdict.wrong


async def test_two_rows_that_changed_places(closed: Path, content: Content) -> None:
    with sql(closed) as connection:
        rows = connection.execute(
            "SELECT batch_id, payload, row_crc FROM log_batch ORDER BY batch_id LIMIT 2"
        ).fetchall()
        for (batch_id, _, _), (_, payload, crc) in zip(rows, reversed(rows), strict=True):
            connection.execute(
                "UPDATE log_batch SET payload = ?, row_crc = ? WHERE batch_id = ?",
                (payload, crc, batch_id),
            )
    verdict = await judge(closed, content)
    assert verdict.failures
    assert all("wrong checksum" in error for error in verdict.logged)
    assert not verdict.wrong


async def test_a_batch_that_is_damaged_below_the_checksum_of_its_row(
    closed: Path, content: Content
) -> None:
    """Written so by somebody: the row is as it was written, the batch in it is none."""
    with sql(closed) as connection:
        batch_id, *row, payload = connection.execute(
            "SELECT batch_id, log_id, base_offset, last_offset, max_timestamp_ms, payload "
            f"FROM log_batch WHERE batch_id = ({LAST_BATCH})"
        ).fetchone()
        bad = payload[:70] + bytes([payload[70] ^ 1]) + payload[71:]
        connection.execute(
            "UPDATE log_batch SET payload = ?, row_crc = ? WHERE batch_id = ?",
            (bad, batch_crc(*row, bad), batch_id),
        )
    verdict = await judge(closed, content)
    assert verdict.failures
    assert "wrong checksum of the batch" in verdict.logged[0]
    assert not verdict.wrong


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET next_offset = next_offset - 1 WHERE name = '__consumer_offsets-1'",
        "UPDATE log SET start_offset = 7 WHERE name = '__consumer_offsets-1'",
        "UPDATE log SET name = '__consumer_offsett-1' WHERE name = '__consumer_offsets-1'",
        "UPDATE log SET name = NULL WHERE name = '__consumer_offsets-1'",
        "UPDATE topic SET name = 'orderz' WHERE name = 'orders'",
        "UPDATE topic SET partitions = 4 WHERE name = 'orders'",
        "UPDATE topic SET configs = '{}'",
        "UPDATE config_override SET value = '1'",
        "UPDATE config_override SET name = 'group-1'",
        "UPDATE producer_id SET next_id = 0",
        "UPDATE meta SET cluster_id = 'AAAAAAAAAAAAAAAAAAAAAA'",
    ],
)
async def test_a_changed_row_of_a_small_table_is_not_served(
    closed: Path, content: Content, statement: str
) -> None:
    with sql(closed) as connection:
        assert connection.execute(statement).rowcount > 0
    verdict = await judge(closed, content)
    assert not verdict.wrong
    if "producer_id" not in statement:
        refused(verdict, "wrong checksum")


@pytest.mark.parametrize("index", ["sqlite_autoindex_log_1", "sqlite_autoindex_config_override_1"])
async def test_a_damaged_index_of_a_small_table(closed: Path, content: Content, index: str) -> None:
    """A row that its index does not find must not be taken for one that never was."""
    with sql(closed) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", (index,)
        ).fetchone()
    start = (page - 1) * PAGE_BYTES
    (cells,) = struct.unpack(">H", database(closed).read_bytes()[start + 3 : start + 5])
    overwrite(database(closed), start + 3, struct.pack(">H", cells - 1))
    refused(await judge(closed, content), "is damaged", "restore the data directory from a copy")
