"""The users that a daemon makes at its start, from a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import ROOT, Daemon
from tests.support.wire_client import WireClient

SETTING = "groupd.scram.users.file"
ADMIN = "SCRAM-SHA-256=[name=admin,password=hush-hush]"
BOB = "SCRAM-SHA-512=[name=bob,password=hush-hush,iterations=5000]"
THERE = {"admin": {1: 4096}, "bob": {2: 5000}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.touch(0o600)
    path.write_text(f"{ADMIN}\n{BOB}\n")
    return path


@contextmanager
def serving(daemon: Daemon) -> Iterator[WireClient]:
    with closing(daemon):
        daemon.start()
        with WireClient(daemon.host, daemon.port) as client:
            yield client
        daemon.stop()
        assert "hush" not in daemon.logs()


def users(client: WireClient) -> dict[str, dict[int, int]]:
    reply = client.call("DescribeUserScramCredentials", 0, users=None)
    return {
        one["user"]: {info["mechanism"]: info["iterations"] for info in one["credential_infos"]}
        for one in reply["results"]
    }


def test_only_what_is_missing_is_made(tmp_path: Path, file: Path) -> None:
    daemon = Daemon(tmp_path, settings={SETTING: str(file)})
    with serving(daemon) as client:
        assert users(client) == THERE
        gone = [{"name": "bob", "mechanism": 2}]
        client.call("AlterUserScramCredentials", 0, deletions=gone, upsertions=[])
    file.write_text(f"SCRAM-SHA-256=[name=admin,password=x,iterations=6000]\n{BOB}\n")
    with serving(daemon) as client:
        assert users(client) == THERE


@pytest.mark.parametrize("there_before", [False, True])
def test_a_recording_repeats_it(tmp_path: Path, file: Path, there_before: bool) -> None:
    """The recorded daemon has made the users, or they were in its store."""
    tape = tmp_path / "tape"
    if there_before:
        with serving(Daemon(tmp_path, settings={SETTING: str(file)})) as client:
            assert users(client) == THERE
    arguments = ["--record", str(tape)]
    daemon = Daemon(tmp_path, settings={SETTING: str(file)}, arguments=arguments)
    with serving(daemon) as client:
        assert users(client) == THERE
    command = [sys.executable, "-m", "groupd", "replay", str(tape)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_file_that_others_may_read_is_refused(tmp_path: Path, file: Path) -> None:
    file.chmod(0o644)
    daemon = Daemon(tmp_path, settings={SETTING: str(file)})
    said = subprocess.run(daemon.command(), cwd=ROOT, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert line.endswith(f"{SETTING}={file}: every user of this machine may read it: chmod 600 it")
