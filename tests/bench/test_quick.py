"""`make bench-quick` as a test: everything in the suite works. No figure is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.page import BEGIN, END, write_page
from tests.bench.parts import PARTS
from tests.support.toolchain import ROOT

TIMEOUT_S = 600


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_every_peer_does_every_workload_or_says_why_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.load(tmp_path / "results-quick.json")
    assert {one.part for one in found.measured} == {part.letters for part in PARTS}
    for one in found.measured:
        workload = one.workload
        reference = next(iter(workload.samples))
        assert workload.samples[reference], (workload.title, workload.notes)
        for peer, samples in workload.samples.items():
            assert samples or (workload.notes or {}).get(peer), (workload.title, peer)
            assert all(value >= 0 for value in samples), (workload.title, peer)
    (tmp_path / "benchmarks.md").write_text(f"{BEGIN}\n{END}\n")
    write_page(found, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert all(one.workload.name in text for one in found.measured)
