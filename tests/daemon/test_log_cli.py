"""`groupd log` as an operator calls it: beside a daemon, after it, and when it cannot work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.admin import committed, retrying
from tests.support.daemon import ROOT, Daemon

TOPICS = {"orders": 2}


def call(*arguments: str, exits: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "groupd", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == exits, (arguments, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    if exits == 2:
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1, done.stderr
    return done


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A running daemon with three commits of one group."""
    made = Daemon(tmp_path_factory.mktemp("log"), topics=TOPICS)
    with closing(made):
        made.start()
        config = {"bootstrap.servers": made.bootstrap, "group.id": "g", "log_level": 0}
        with closing(Consumer(config)) as reader:
            for offset in (1, 2, 3):
                at = [TopicPartition("orders", 1, offset)]
                retrying(lambda at=at: reader.commit(offsets=at, asynchronous=False))
        yield made
        made.stop()


@pytest.fixture
def place(daemon: Daemon) -> tuple[str, str]:
    return "--data-dir", str(daemon.data_dir)


def test_a_running_daemons_log_is_read_and_it_is_said(
    daemon: Daemon, place: tuple[str, str]
) -> None:
    done = call("log", "dump", *place, "--format", "json")
    assert [json.loads(line)["value"]["data"]["offset"] for line in done.stdout.splitlines()] == [
        1,
        2,
        3,
    ]
    assert f"beside the running daemon (process {daemon.pid}), without a lock" in done.stderr
    said = call("log", "verify", *place).stdout
    assert said.startswith("0 findings in ")
    assert "1 groups, 1 offsets" in said
    assert committed(daemon.bootstrap, "g", TOPICS)["orders", 1] == 3


def test_a_reader_that_has_seen_enough_ends_the_dump(place: tuple[str, str]) -> None:
    command = f"{sys.executable} -m groupd log dump {' '.join(place)} | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "offset=1" in done.stdout
    assert "BrokenPipe" not in done.stderr


def test_a_store_in_use_takes_no_import(place: tuple[str, str], tmp_path: Path) -> None:
    call("log", "export", *place, "--to", str(tmp_path / "out"))
    into = ["--into-data-dir", place[1], "--merge"]
    done = call("log", "import", "--from", str(tmp_path / "out"), *into, exits=2)
    assert "in use by another groupd" in done.stderr
    # A dry run needs no lock.
    said = call("log", "import", "--from", str(tmp_path / "out"), *into, "--dry-run").stdout
    assert "left as they are here: groups g" in said


def test_a_daemon_serves_what_was_consumed_from_another(daemon: Daemon, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    done = call("log", "consume", "--bootstrap", daemon.bootstrap, "--to", str(copy))
    assert "copied 3 records in 3 batches of 100 partitions" in done.stdout
    into = ["--into-data-dir", str(tmp_path / "data")]
    said = call("log", "import", "--from", str(copy), *into, "--create-topics", "--dry-run").stdout
    assert said.startswith("would import 1 groups (1 classic Empty) with 1 offsets: 1 of 3 records")
    assert not (tmp_path / "data").exists()
    call("log", "import", "--from", str(copy), *into, "--create-topics")
    with closing(Daemon(tmp_path)) as other:
        other.start()
        assert committed(other.bootstrap, "g", TOPICS) == {("orders", 0): -1, ("orders", 1): 3}
        other.stop()


def test_damage_has_exit_code_1(place: tuple[str, str], tmp_path: Path) -> None:
    call("log", "export", *place, "--to", str(tmp_path))
    (segment,) = tmp_path.glob("*/*.log")
    raw = bytearray(segment.read_bytes())
    raw[-2] ^= 1
    segment.write_bytes(bytes(raw))
    said = call("log", "verify", str(tmp_path), exits=1).stdout.splitlines()
    assert len(said) == 2
    assert "wrong checksum of the batch at offset 2" in said[0]
    assert said[1].startswith("1 findings in 1 logs")
    # A dump shows what comes before the damage, then ends.
    done = subprocess.run(
        [sys.executable, "-m", "groupd", "log", "dump", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2
    assert "wrong checksum" in done.stderr


REFUSED = {
    "no store": (["log", "dump", "--data-dir", "{tmp}"], "there is no such store"),
    "no path": (["log", "verify", "{tmp}/x"], "is neither a segment file nor a directory"),
    "two places": (["log", "dump", "{tmp}", "--data-dir", "{tmp}"], "name one place"),
    "empty": (["log", "dump", "--data-dir", ""], "--data-dir: is empty"),
    "type": (["log", "dump", "--type", "x"], "--type x: must be one of"),
    "time": (["log", "dump", "--from", "x"], "x is no time: write ISO 8601"),
    "format": (["log", "dump", "--format", "x"], "--format x: must be text or json"),
    "memory": (["log", "dump", "--store", "memory://"], "memory:// holds nothing"),
    "ids": (["log", "export", "--to", "{tmp}", "--topic-ids", "x"], "must be drop or keep"),
    "nobody": (
        ["log", "consume", "--bootstrap", "127.0.0.1:1", "--to", "{tmp}/c"],
        "no Kafka broker at 127.0.0.1:1",
    ),
    "serve: empty": (["serve", "--data-dir", ""], "--data-dir: is empty"),
    "serve: internal": (
        ["serve", "--data-dir", "{tmp}/d", "--topic", "__consumer_offsets:1"],
        "__consumer_offsets is internal",
    ),
}


@pytest.mark.parametrize(("arguments", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_one_line(arguments: list[str], reason: str, tmp_path: Path) -> None:
    done = call(*(part.replace("{tmp}", str(tmp_path)) for part in arguments), exits=2)
    assert done.stderr.startswith("groupd: ")
    assert reason in done.stderr
