"""The types of the harness, as a checker of its users sees them, and its reprs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from groupd.coordinator.faults.layer import FaultState
from groupd.testing.answers import GroupDescription, Member
from groupd.testing.harness import GroupCoordinator
from groupd.testing.records import TestRecord
from tests.harness.members import Member as Consumer
from tests.harness.test_plugin import run

ROOT = Path(__file__).resolve().parents[2]
TYPED = """
import pytest

from groupd.testing import GroupCoordinator, GroupCoordinatorFactory, TestRecord


@pytest.mark.groupd(topics={"orders": 2})
def test_it(groupd: GroupCoordinator) -> None:
    seeded: list[TestRecord] = groupd.produce("orders", ["coffee", "tea"])
    groupd.commit("billing", {("orders", seeded[0].partition): 1})
    assert groupd.describe("billing")["members"] == []


def test_two(groupd_factory: GroupCoordinatorFactory) -> None:
    east, west = groupd_factory(topics={"orders": 1}), groupd_factory(clock="frozen")
    assert (east.topics(), west.topics()) == ({"orders": 1}, {})
"""
MISTAKES = """
from groupd.testing import GroupCoordinator

def test_it(groupd: GroupCoordinator) -> None:
    groupd.describe("billing")["stat"]
    groupd.records("orders", isolation="committed")
    groupd.fault("drop", grup="billing")
    groupd.wait_members("billing", "2")
    for event in groupd.events("billing"):
        event["kind"]
"""


def required(kind: Any) -> set[str]:
    """Keys that are always there."""
    hints = get_type_hints(kind, include_extras=True)
    return {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}


def test_the_typed_example_runs(pytester: pytest.Pytester) -> None:
    run(pytester, TYPED).assert_outcomes(passed=2)


def test_the_example_is_typed_and_mistakes_are_found(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(TYPED)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache",
         "--follow-imports=silent", "example.py", "mistakes.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.partition(":")[0] for line in lines] == ["mistakes.py"] * 5, done.stdout
    assert [int(line.split(":")[1]) for line in lines] == [5, 6, 7, 8, 10], done.stdout


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_descriptions_have_the_keys_of_their_types(groupd: GroupCoordinator, protocol: str) -> None:
    groupd.create_topic("orders")
    with Consumer(groupd.bootstrap_servers, "billing", protocol) as member:
        member.wait(owned=1)
        group = groupd.describe("billing")
    (one,) = group["members"]
    assert required(GroupDescription) <= group.keys() <= get_type_hints(GroupDescription).keys()
    assert required(Member) <= one.keys() <= get_type_hints(Member).keys()


async def test_faults_have_the_keys_of_their_type(groupd: GroupCoordinator) -> None:
    fault = groupd.faults.add("error", api=["OffsetCommit"], group="b*", code=16, count=2, skip=1)
    shown = await groupd.aio.fault(fault.number)
    assert required(FaultState) <= shown.keys() <= get_type_hints(FaultState).keys()


@pytest.mark.groupd(clock="frozen")
def test_reprs(groupd: GroupCoordinator) -> None:
    assert repr(groupd) == f"<GroupCoordinator {groupd.bootstrap_servers}>"
    assert repr(groupd.clock).startswith("<Clock frozen, 20")
    groupd.clock.run(4)
    assert repr(groupd.clock).startswith("<Clock 4 times as fast, 20")
    fault = groupd.fault("error", api="OffsetCommit", code="NOT_COORDINATOR")
    assert repr(fault) == "<Fault 1 error api=OffsetCommit code=NOT_COORDINATOR: 0 hits>"
    incident = groupd.recipes.slow_rebalance("billing")
    assert repr(incident).startswith("<Incident slow_rebalance: <Fault 2 hold api=JoinGroup,")
    record = TestRecord(b"v", b"k", (("h", b"1"),), partition=2, offset=7)
    assert repr(record) == "<TestRecord 2@7 b'k'=b'v' {'h': b'1'}>"
    assert repr(TestRecord(None)) == "<TestRecord None>"
    groupd.close()
    assert repr(groupd) == "<GroupCoordinator closed>"
    assert repr(groupd.clock) == "<Clock of a closed broker>"
