"""A disk that takes no more: commits are refused with an error that clients retry, what was
acknowledged stays, and the daemon goes on by itself once there is space again.

Two ways to fill it: a limit from outside on the size of any file that the daemon writes
(RLIMIT_FSIZE), which needs no rights; and, where these tests may mount one, a small file system.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from groupd.protocol.records.batch_builder import encode_batch
from tests.support.daemon import ROOT, Daemon
from tests.support.wire_client import WireClient

NONE = 0
RETRIABLE = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: clients look for the
coordinator and send the commit again."""
KAFKA_STORAGE_ERROR = 56
RECOVERY_S = 20.0
ATTEMPTS = 200
METADATA = "x" * 4000
"""Commits with this metadata are so large that a few of them fill the room left in the files."""


DISK_BYTES = 4 << 20


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Mounts a file system of its own at `directory`. Raises CalledProcessError where that may not
    be."""
    directory.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "groupd-test", str(directory)]
    subprocess.run(["mount", *options], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True, capture_output=True)


def may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as directory:
        try:
            with small_disk(Path(directory)):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


KINDS = ["limit", "tmpfs"] if may_mount() else ["limit"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "limit":
        yield request.param
        return
    with small_disk(tmp_path / "daemon" / "data"):
        yield request.param


@pytest.fixture
def daemon(tmp_path: Path, kind: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "daemon", topics={"orders": 1})
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


@contextmanager
def limited(daemon: Daemon) -> Iterator[None]:
    """Lets no file of the daemon grow beyond what its largest one has now."""
    largest = max(path.stat().st_size for path in daemon.data_dir.iterdir())
    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def filled(directory: Path) -> Iterator[None]:
    """Fills the file system of `directory` to the last byte."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    try:
        yield
    finally:
        ballast.unlink()


FullDisk = Callable[[Daemon], AbstractContextManager[None]]


@pytest.fixture
def full_disk(kind: str) -> FullDisk:
    return limited if kind == "limit" else lambda daemon: filled(daemon.data_dir)


def commit(client: WireClient, offset: int) -> int:
    """The error code of one commit."""
    reply = client.call(
        "OffsetCommit",
        8,
        group_id="billing",
        topics=[
            {
                "name": "orders",
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": offset,
                        "committed_metadata": METADATA,
                    }
                ],
            }
        ],
    )
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def committed(client: WireClient) -> int:
    topics = [{"name": "orders", "partition_indexes": [0]}]
    reply = client.call("OffsetFetch", 7, group_id="billing", topics=topics)
    assert reply["error_code"] == NONE
    offset: int = reply["topics"][0]["partitions"][0]["committed_offset"]
    return offset


def commit_until(client: WireClient, offset: int) -> None:
    """Does what a client does: tries again until the commit is taken."""
    deadline = time.monotonic() + RECOVERY_S
    while (code := commit(client, offset)) != NONE:
        assert code in RETRIABLE
        assert time.monotonic() < deadline, "commits are refused although there is space again"
        time.sleep(0.05)


def test_commits_are_refused_while_the_disk_is_full_and_taken_again_without_a_restart(
    daemon: Daemon, full_disk: FullDisk
) -> None:
    with WireClient(daemon.host, daemon.port) as client:
        assert commit(client, 1) == NONE
        refusals = []
        with full_disk(daemon):
            for offset in range(2, ATTEMPTS):
                if code := commit(client, offset):
                    refusals.append(code)
                if len(refusals) == 3:
                    break
        assert len(refusals) == 3, "the disk never was full"
        assert set(refusals) <= RETRIABLE
        assert "the store refuses writes" in daemon.logs()
        commit_until(client, 1000)
        assert committed(client) == 1000
    daemon.kill()
    daemon.restart()
    with WireClient(daemon.host, daemon.port) as client:
        assert committed(client) == 1000


def test_what_was_refused_is_not_there_and_what_was_acknowledged_is(
    daemon: Daemon, full_disk: FullDisk
) -> None:
    with WireClient(daemon.host, daemon.port) as client:
        acknowledged = 0
        with full_disk(daemon):
            for offset in range(1, ATTEMPTS):
                if commit(client, offset) != NONE:
                    break
                acknowledged = offset
            else:
                pytest.fail("the disk never was full")
        daemon.kill()
    daemon.restart()
    with WireClient(daemon.host, daemon.port) as client:
        # Nothing at all (-1) if even the first one was refused.
        assert committed(client) == (acknowledged or -1)


def produce(client: WireClient, value: bytes) -> int:
    """The error code of one record."""
    batch = encode_batch(0, -1, 0, [(None, value)])
    partitions = [{"index": 0, "records": batch}]
    reply = client.call(
        "Produce",
        9,
        acks=-1,
        timeout=10_000,
        topic_data=[{"name": "orders", "partition_data": partitions}],
    )
    code: int = reply["responses"][0]["partition_responses"][0]["error_code"]
    return code


def test_records_are_refused_while_the_disk_is_full_and_taken_again(
    daemon: Daemon, full_disk: FullDisk
) -> None:
    with WireClient(daemon.host, daemon.port) as client:
        with full_disk(daemon):
            for _ in range(ATTEMPTS):
                if code := produce(client, os.urandom(20_000)):
                    break
            assert code == KAFKA_STORAGE_ERROR
            assert client.call("ApiVersions", 0)["error_code"] == NONE
        deadline = time.monotonic() + RECOVERY_S
        while (code := produce(client, b"again")) != NONE:
            assert code == KAFKA_STORAGE_ERROR
            assert time.monotonic() < deadline
            time.sleep(0.05)


def refused_start(command: list[str]) -> str:
    """The one line on stderr of a start that must end with exit code 2."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("made", [False, True])
def test_a_start_on_a_full_disk_ends_with_one_line(tmp_path: Path, kind: str, made: bool) -> None:
    daemon = Daemon(tmp_path / "daemon", topics={"orders": 1})
    daemon.data_dir.mkdir(parents=True, exist_ok=True)
    if made:
        daemon.start()
        daemon.stop()
        daemon.close()
    command = daemon.command()
    if kind == "limit":
        # ulimit counts blocks of 512 or 1024 bytes.
        line = refused_start(["sh", "-c", 'ulimit -f 4 && exec "$@"', "sh", *command])
    else:
        with filled(daemon.data_dir):
            line = refused_start(command)
    assert line.startswith("groupd: ")
    assert "the disk is full: make room and start again" in line, line
    daemon.restart() if made else daemon.start()
    daemon.stop()
    daemon.close()
