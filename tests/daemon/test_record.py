"""`groupd serve --record` and `groupd replay` as processes, with the store on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import ROOT, Daemon
from tests.support.metrics import total
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, settle, topic_ids
from tests.support.wire_client import WireClient


def replayed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "groupd", "replay", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def serving(directory: Path, file: Path, *more: str) -> Iterator[Daemon]:
    """A daemon that records. At the end it is stopped in good order unless it was killed."""
    at_once = {
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.assignment.interval.ms": "0",
    }
    arguments = ("--record", str(file), *more)
    daemon = Daemon(directory, topics={"orders": 4}, settings=at_once, arguments=arguments)
    with closing(daemon):
        daemon.start()
        yield daemon
        if daemon.process.running:
            daemon.stop()


def story(daemon: Daemon, group: str = "billing") -> None:
    """Two members settle, repeat their heartbeats, and one commits."""
    ids = topic_ids(daemon)
    with (
        closing(RawMember(daemon, group, "one", ids)) as one,
        closing(RawMember(daemon, group, "two", ids)) as two,
    ):
        _story(one, two)


def _story(one: RawMember, two: RawMember) -> None:
    one.join(["orders"])
    two.join(["orders"])
    settle(one, two)
    for _ in range(20):
        one.beat()
        two.beat()
    commit(one, 7)


def commit(one: RawMember, offset: int) -> None:
    part = {"partition_index": 0, "committed_offset": offset}
    reply = one.client.call(
        "OffsetCommit",
        9,
        group_id=one.group,
        member_id="one",
        generation_id_or_member_epoch=one.epoch,
        topics=[{"name": "orders", "partitions": [part]}],
    )
    assert reply["topics"][0]["partitions"][0]["error_code"] == 0


def test_every_one_of_many_commits_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "r"
    with serving(tmp_path, file) as daemon:
        ids = topic_ids(daemon)
        with closing(RawMember(daemon, "billing", "one", ids)) as one:
            one.join(["orders"])
            settle(one)
            for offset in range(8):
                commit(one, offset)
    assert file.read_text().count("OffsetCommitReply") == 8
    done = replayed(file)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_recording_of_a_store_on_disk_and_one_of_its_next_start(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(tmp_path, first) as daemon:
        story(daemon)
        assert total(daemon.admin_url, "groupd_recording_active") == 1
        repeated = total(daemon.admin_url, "groupd_replies_repeated_total")
        assert repeated >= 20, "the shortcut is not off"
    done = replayed(first)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no difference in" in done.stdout
    # The second one begins with what the first one left.
    with serving(tmp_path, second) as daemon:
        with WireClient(daemon.host, daemon.port) as client:
            asked = [{"group_id": "billing", "topics": None}]
            reply = client.call("OffsetFetch", 8, groups=asked, require_stable=True)
        assert reply["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == 7
        story(daemon, "other")
    assert '"k":"batch"' in second.read_text()
    done = replayed(second)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_killed_daemon_leaves_a_recording(tmp_path: Path) -> None:
    file = tmp_path / "r"
    with serving(tmp_path, file) as daemon:
        story(daemon)
        daemon.kill()
    done = replayed(file, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert shown["ended"] == "torn"
    assert shown["differences"] == []
    # Cut anywhere behind the head it is one, too.
    whole = file.read_bytes()
    head = whole.index(b"\n") + 1
    for cut in (head, head + 1, (head + len(whole)) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        done = replayed(file)
        assert (done.returncode, done.stderr) == (0, ""), cut


@pytest.fixture(scope="module")
def mutated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A recording of two groups with one wrong reply in each, and the requests that these
    answer."""
    directory = tmp_path_factory.mktemp("mutated")
    file = directory / "r"
    with serving(directory, file) as daemon:
        story(daemon)
        story(daemon, "other")
    lines = file.read_text().splitlines(keepends=True)
    commits = [at for at, line in enumerate(lines) if "OffsetCommitReply" in line]
    requests = []
    for at in commits:
        entry: dict[str, Any] = json.loads(lines[at])
        entry["m"]["topics"][0]["partitions"][0]["error"] = 22
        lines[at] = json.dumps(entry) + "\n"
        requests.append(entry["to"])
    file.write_text("".join(lines))
    assert len(requests) == 2
    return file, requests


def test_the_first_difference_is_shown(mutated: tuple[Path, list[int]]) -> None:
    file, (first, second) = mutated
    done = replayed(file)
    assert done.returncode == 1
    assert f"first difference: request {first} at +" in done.stdout
    assert "OffsetCommit v9 from one (connection " in done.stdout
    assert "group=billing member=one" in done.stdout
    assert "topics[0].partitions[0].error" in done.stdout
    assert "recorded: 22 (ILLEGAL_GENERATION)" in done.stdout
    assert "replayed: 0 (NONE)" in done.stdout
    assert "before it:" in done.stdout
    assert f"request {second}" not in done.stdout


def test_options_of_replay(mutated: tuple[Path, list[int]]) -> None:
    file, (first, second) = mutated
    every = replayed(file, "--all")
    assert every.returncode == 1
    assert f"difference 1: request {first}" in every.stdout
    assert f"difference 2: request {second}" in every.stdout
    other = json.loads(replayed(file, "--group", "other", "--json").stdout)
    assert [one["request"]["number"] for one in other["differences"]] == [second]
    assert other["differences"][0]["fields"] == [
        {"path": "topics[0].partitions[0].error", "expected": 22, "got": 0}
    ]
    assert replayed(file, "--group", "nobody").returncode == 0
    assert replayed(file, "--until", str(first - 1)).returncode == 0
    assert replayed(file, "--until", str(second), "--group", "other").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("README.md",), "is no recording of groupd"),
        (("no-such-file",), "No such file"),
        ((), "Missing argument"),
        (("README.md", "--until", "0"), "--until"),
        (("README.md", "--set", "x"), "must be KEY=VALUE"),
    ],
)
def test_what_cannot_be_replayed(arguments: tuple[str, ...], what: str) -> None:
    done = replayed(*arguments)
    assert done.returncode == 2
    assert what in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_recording_has_a_largest_size_and_serving_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "r"
    with serving(tmp_path, file, "--record-max", "1") as daemon:
        with WireClient(daemon.host, daemon.port) as client:
            for _ in range(1000):
                client.call("ApiVersions", 0)
        wait_until(lambda: total(daemon.admin_url, "groupd_recording_active") == 0, 10.0, "the end")
        story(daemon)
    assert "recording ended" in (tmp_path / "groupd.log").read_text()
    assert 900_000 < file.stat().st_size <= (1 << 20) + 100
    done = replayed(file)
    assert done.returncode == 0
    assert "ended early (size limit)" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("mine")
    command = [sys.executable, "-m", "groupd", "serve", "--record", str(tmp_path / "r")]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert (tmp_path / "r").read_text() == "mine"


def test_the_control_api_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "r"
    with serving(tmp_path, file, "--control", "--profile", "test") as daemon:
        body = {"action": "error", "api": "OffsetCommit", "code": "UNKNOWN_MEMBER_ID", "count": 1}
        for path, said in (("/control/faults", body), ("/control/clock/advance", {"ms": 5000})):
            request = urllib.request.Request(
                daemon.admin_url + path,
                json.dumps(said).encode(),
                {"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=10).close()
        with pytest.raises(AssertionError):
            story(daemon)
        story(daemon, "other")
    text = file.read_text()
    assert '"k":"fault"' in text
    assert '"k":"renew"' in text
    done = replayed(file)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
