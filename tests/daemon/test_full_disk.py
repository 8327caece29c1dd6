"""A disk that takes no more: commits are refused with an error that clients retry, what was
acknowledged stays, and the daemon goes on by itself once there is space again.

The limit is set from outside on the size of any file that the daemon writes (RLIMIT_FSIZE), which
needs no rights and no file system of its own; the store sees a write that fails.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.wire_client import WireClient

NONE = 0
RETRIABLE = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: clients look for the
coordinator and send the commit again."""
RECOVERY_S = 20.0
ATTEMPTS = 200
METADATA = "x" * 4000
"""So that a few commits outgrow what the files still have room for."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "daemon", topics={"orders": 1})
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


@contextmanager
def full_disk(daemon: Daemon) -> Iterator[None]:
    """No file of the daemon grows beyond what its largest one has now."""
    largest = max(path.stat().st_size for path in daemon.data_dir.iterdir())
    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (soft, hard))


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
    """As a client does: try again until the commit is taken."""
    deadline = time.monotonic() + RECOVERY_S
    while (code := commit(client, offset)) != NONE:
        assert code in RETRIABLE
        assert time.monotonic() < deadline, "commits are refused although there is space again"
        time.sleep(0.05)


def test_commits_are_refused_while_the_disk_is_full_and_taken_again_without_a_restart(
    daemon: Daemon,
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


def test_what_was_refused_is_not_there_and_what_was_acknowledged_is(daemon: Daemon) -> None:
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
