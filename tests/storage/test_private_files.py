"""What groupd stores is for its own user, whatever the umask; what is there already stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.logtools.segments import SegmentWriter
from groupd.coordinator.recording.tape import Tape
from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import encode_marker
from groupd.storage.private_files import open_to_others


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def serve(directory: Path) -> list[str]:
    """Lives a daemon's life; the warnings of its start."""
    daemon = Daemon(DaemonOptions(("127.0.0.1", 0), admin=None, data_dir=directory))
    with capture_logs() as lines:
        await daemon.start()
    await daemon.parts.data_plane.create_missing([("orders", 1)])
    found = {path.name: rights(path) for path in directory.iterdir()}
    await daemon.stop()
    new = {"groupd.sqlite", "groupd.sqlite-wal", "groupd.sqlite-shm", "groupd.sqlite.lock"}
    assert new | {"groupd.sqlite.acknowledged"} == found.keys()
    assert {name: f"{mode:o}" for name, mode in found.items() if mode != 0o600} == {}
    return [line["event"] for line in lines if line["log_level"] == "warning"]


async def test_a_new_directory_and_all_in_it(tmp_path: Path) -> None:
    directory = tmp_path / "some" / "data"
    assert await serve(directory) == []
    assert rights(directory) == 0o700
    assert await serve(directory) == []


async def test_a_directory_that_is_shared_stays_shared(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    await serve(tmp_path)
    assert rights(tmp_path) == 0o755
    assert await serve(tmp_path) == [], "what is in it is not"


async def test_a_database_that_everybody_may_read_is_reported_and_left_alone(
    tmp_path: Path,
) -> None:
    await serve(tmp_path)
    database = tmp_path / "groupd.sqlite"
    database.chmod(0o644)
    tmp_path.chmod(0o755)
    assert open_to_others(database) == [str(database)]
    daemon = Daemon(DaemonOptions(("127.0.0.1", 0), admin=None, data_dir=tmp_path))
    with capture_logs() as lines:
        await daemon.start()
    await daemon.stop()
    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert warning["files"] == [str(database)]
    assert rights(database) == 0o644
    tmp_path.chmod(0o750)
    assert open_to_others(database) == [], "only a group has a way to it"


def test_recordings_and_exports(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "recording", 1 << 20)
    assert rights(tmp_path / "recording") == 0o600
    tape.discard()
    batch = encode_marker(0, 0, 1, 7, 0, 0, commit=True)
    with SegmentWriter(tmp_path, 3) as writer:
        writer.write(parse_header(batch), batch)
    (segment,) = writer.directory.glob("*.log")
    assert (rights(writer.directory), rights(segment)) == (0o700, 0o600)
