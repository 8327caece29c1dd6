"""Fifty members join at once and one leaves, as state machines in C: the benchmark's quick mode."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bench.plan import Plan
from tests.bench.storm import members
from tests.bench.storm.workloads import measure


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path / "members"
    source = Path(members.__file__).with_name("members.c")
    subprocess.run([compiler, "-O1", "-o", str(program), str(source)], check=True)
    monkeypatch.setattr(members, "MEMBERS", program)


def test_members_join_and_leave(built: None) -> None:
    for workload in measure(Plan(peers=("groupd",), quick=True)):
        assert not workload.notes, workload.notes
        assert workload.samples["groupd"], workload.name
        assert min(workload.samples["groupd"]) > 0
