"""The benchmark suite works: every part with groupd, and one part with every peer.

No figure is judged. `make bench-quick` has every peer do every part, which takes thrice as long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.__main__ import PEERS
from tests.bench.page import BEGIN, END, write_page
from tests.bench.parts import PARTS
from tests.support.toolchain import ROOT

TIMEOUT_S = 600


def measured(directory: Path, *arguments: str) -> results.Results:
    """What a quick run of the suite has kept. Every workload has a figure of the first peer, and of
    each other one a figure or a note that says why there is none."""
    command = [sys.executable, "-m", "tests.bench", "--quick", "--out", str(directory), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.load(directory / "results-quick.json")
    for one in found.measured:
        workload = one.workload
        reference = next(iter(workload.samples))
        assert workload.samples[reference], (workload.title, workload.notes)
        for peer, samples in workload.samples.items():
            assert samples or (workload.notes or {}).get(peer), (workload.title, peer)
            assert all(value >= 0 for value in samples), (workload.title, peer)
    return found


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_groupd_does_every_part_and_the_page_shows_all_of_it(tmp_path: Path) -> None:
    found = measured(tmp_path, "--peers", "groupd")
    assert {one.part for one in found.measured} == {part.letters for part in PARTS}
    (tmp_path / "benchmarks.md").write_text(f"{BEGIN}\n{END}\n")
    write_page(found, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert all(one.workload.name in text for one in found.measured)


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_every_peer_answers_heartbeats_or_says_why_not(tmp_path: Path) -> None:
    found = measured(tmp_path, "--only", "a")
    assert found.measured
    assert all(one.workload.samples.keys() == set(PEERS) for one in found.measured)
