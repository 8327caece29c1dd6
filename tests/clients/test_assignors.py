"""Custom assignors: the documented example, installed for real, and assignors that misbehave."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support.daemon import ROOT, Daemon
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, admin_json, settle, topic_ids

EXAMPLE = ROOT / "docs" / "examples" / "assignor"
FAULTY = "tests.support.faulty_assignors:"
UNKNOWN_SERVER_ERROR = -1


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example package, as pip installs it."""
    directory = tmp_path_factory.mktemp("assignor")
    source, target = directory / "source", directory / "target"
    shutil.copytree(EXAMPLE, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--disable-pip-version-check", "--no-build-isolation", "--target", str(target)]
    done = subprocess.run(
        [*command, str(source)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Iterator[Daemon]:
    names = [FAULTY + name for name in ("Raises", "Twice", "NonSubscriber", "Outside")]
    assignors = ",".join(["uniform", "range", "weighted", *names])
    with running(
        Daemon(
            tmp_path_factory.mktemp("daemon"),
            topics={"alpha": 4, "beta": 8},
            settings={**FAST_SETTINGS, "group.consumer.assignors": assignors},
            env={"PYTHONPATH": str(installed)},
        )
    ) as made:
        yield made


def consumer(daemon: Daemon, group: str, assignor: str, instance_id: str = "") -> Consumer:
    config = {
        "bootstrap.servers": daemon.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "group.remote.assignor": assignor,
        "log_level": 0,
    }
    if instance_id:
        config["group.instance.id"] = instance_id
    return Consumer(config)


def owned(one: Consumer) -> set[int]:
    return {at.partition for at in one.assignment()}


def test_real_consumers_share_by_the_example_assignor(daemon: Daemon) -> None:
    big = consumer(daemon, "by-weight", "weighted", "indexer-1.w3")
    small = consumer(daemon, "by-weight", "weighted", "indexer-2")
    try:
        for one in (big, small):
            one.subscribe(["beta"])

        def shared() -> bool:
            for one in (big, small):
                one.poll(0.05)
            return (len(owned(big)), len(owned(small))) == (6, 2)

        wait_until(shared, 20, "6 and 2 partitions", daemon.logs)
        assert owned(big) | owned(small) == set(range(8))
    finally:
        big.close()
        small.close()


@pytest.mark.parametrize(
    ("assignor", "fault"),
    [
        ("raises", "KeyError: 'no luck today'"),
        ("twice", "m2 got a partition of alpha that is handed out twice"),
        ("non-subscriber", "m1 got partitions of alpha, to which it is not subscribed"),
        ("outside", "m1 got a partition that alpha does not have: 4"),
    ],
)
def test_a_faulty_assignor_fails_that_heartbeat_only(
    daemon: Daemon, assignor: str, fault: str
) -> None:
    group = f"faulty-{assignor}"
    ids = topic_ids(daemon)
    with ExitStack() as stack:
        members = [RawMember(daemon, group, name, ids) for name in ("m1", "m2")]
        for member in members:
            stack.callback(member.close)
        first, second = members
        # Both take alpha, except where the fault is to give it to somebody who does not.
        first.join(["beta"] if assignor == "non-subscriber" else ["alpha"])
        settle(first)
        epoch, had = first.epoch, dict(first.owned)

        reply = second.join(["alpha"], server_assignor=assignor)
        assert (reply["error_code"], reply["error_message"]) == (UNKNOWN_SERVER_ERROR, None)
        logged = [
            line for line in daemon.process.stderr().splitlines() if f"group={group} " in line
        ]
        (line,) = [line for line in logged if "assignor-failed" in line]
        for part in ("level=warning", f"assignor={assignor}", "member=m2"):
            assert part in line
        assert fault in line
        assert "Traceback" not in daemon.process.stderr()

        shown = admin_json(daemon, f"/groups/{group}")
        assert [one["member_id"] for one in shown["members"]] == ["m1"]
        assert (shown["state"], shown["group_epoch"]) == ("Stable", epoch)
        assert first.beat()["error_code"] == 0
        assert (first.epoch, first.owned) == (epoch, had)

        assert second.join(["alpha"], server_assignor="range")["error_code"] == 0
        settle(first, second)
        got = sorted(first.owned.get("alpha", []) + second.owned["alpha"])
        assert got == [0, 1, 2, 3]


def test_a_real_consumer_with_a_faulty_assignor_and_one_with_another(daemon: Daemon) -> None:
    errors: list[str] = []
    fails = consumer(daemon, "real-faulty", "raises")
    works = consumer(daemon, "real-faulty", "uniform")
    try:
        fails.subscribe(["alpha"])
        deadline = time.monotonic() + 60
        while not errors and "real-faulty" not in daemon.process.stderr():
            message = fails.poll(0.1)
            if message is not None and message.error() is not None:
                errors.append(str(message.error()))
            assert time.monotonic() < deadline, daemon.logs()
        assert owned(fails) == set()
        works.subscribe(["alpha"])

        def covered() -> bool:
            works.poll(0.05)
            return owned(works) == {0, 1, 2, 3}

        wait_until(covered, 60, "the other consumer owns everything", daemon.logs)
    finally:
        fails.close()
        works.close()


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("weihgted", "unknown assignor 'weihgted'"),
        ("no_such_module:Class", "ModuleNotFoundError: No module named 'no_such_module'"),
        (FAULTY + "Absent", "has no attribute 'Absent'"),
        ("json:dumps", "cannot load 'json:dumps': TypeError"),
        ("collections:OrderedDict", "is no assignor"),
    ],
)
def test_an_assignor_that_cannot_be_loaded_ends_the_start(
    tmp_path: Path, name: str, named: str
) -> None:
    daemon = Daemon(tmp_path, settings={"group.consumer.assignors": f"uniform,{name}"})
    done = subprocess.run(
        daemon.command(), capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert named in line
