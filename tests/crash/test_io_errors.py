"""An fsync that fails: nobody can know whether the commit is on the disk, so it is refused with an
error that clients retry, and the daemon settles it by reading its log."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from groupd.protocol.records.batch_builder import encode_batch
from tests.crash.golden import OFFSET_COMMIT, OFFSET_FETCH, PRODUCE, serving
from tests.crash.wire import (
    Connection,
    commit_body,
    commit_errors,
    fetched_offsets,
    offset_fetch_body,
    produce_body,
    produced,
)

KAFKA_STORAGE_ERROR, NOT_COORDINATOR, LOAD_IN_PROGRESS = 56, 16, 14


class FailingFsync:
    """Makes the next `count` commits fail as SQLite reports it; `written`: they fail after they
    were made."""

    def __init__(self, written: bool) -> None:
        self.count = 0
        self._written = written

    def install(self, patch: pytest.MonkeyPatch) -> None:
        failing = self

        class FailingConnection(sqlite3.Connection):
            def commit(self) -> None:
                if failing.count == 0:
                    super().commit()
                    return
                failing.count -= 1
                if failing._written:
                    super().commit()
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                raise error

        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailingConnection))


async def commit(connection: Connection, offset: int) -> int:
    body = commit_body("billing", "orders", [(0, offset, "")])
    (error,) = commit_errors(await connection.call(OFFSET_COMMIT, 7, body))
    return error


async def committed(connection: Connection) -> int:
    body = offset_fetch_body("billing", "orders", [0])
    return fetched_offsets(await connection.call(OFFSET_FETCH, 5, body))[0]


async def retried(connection: Connection, offset: int) -> None:
    """Commits again until it works, as clients do; the shard is loaded again within a few turns."""
    while (error := await commit(connection, offset)) != 0:
        assert error in (NOT_COORDINATOR, LOAD_IN_PROGRESS)


@pytest.mark.parametrize("written", [False, True])
async def test_a_failed_fsync_refuses_the_commit_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    fsync = FailingFsync(written)
    fsync.install(monkeypatch)
    with capture_logs() as logs:
        async with serving(tmp_path / "data") as (_, connection):
            assert await commit(connection, 1) == 0
            fsync.count = 1
            assert await commit(connection, 2) == NOT_COORDINATOR
            await retried(connection, 3)
            assert await committed(connection) == 3
            fsync.count = 1
            assert await commit(connection, 4) == NOT_COORDINATOR
        async with serving(tmp_path / "data") as (_, connection):
            assert await committed(connection) == (4 if written else 3)
    (cause, *_) = [entry["cause"] for entry in logs if "refuses writes" in entry["event"]]
    assert "disk I/O error" in cause


@pytest.mark.parametrize("written", [False, True])
async def test_a_failed_fsync_refuses_records_and_the_next_ones_follow_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    fsync = FailingFsync(written)
    fsync.install(monkeypatch)
    batch = encode_batch(0, -1, 0, [(None, b"x")])
    body = produce_body("events", 0, batch)
    async with serving(tmp_path / "data") as (_, connection):
        assert produced(await connection.call(PRODUCE, 7, body)) == (0, 0)
        fsync.count = 1
        error, _ = produced(await connection.call(PRODUCE, 7, body))
        assert error == KAFKA_STORAGE_ERROR
        assert produced(await connection.call(PRODUCE, 7, body)) == (0, 2 if written else 1)
