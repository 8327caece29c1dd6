"""The benchmark suite works: two parts with groupd, and the page that is made of them; every part
with groupd, and one part with every peer, in `make nightly`.

No figure is judged. `make bench-quick` has every peer do every part, which takes thrice as long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.__main__ import PEERS
from tests.bench.page import BEGIN, END, LEFT_OUT, write_page
from tests.bench.parts import PARTS, chosen
from tests.support.toolchain import ROOT

TIMEOUT_S = 600
EVERY_PART = ",".join(part.letters[0] for part in PARTS)


def measured(kept: Path, *arguments: str) -> results.Results:
    """What a quick run of the suite has kept. Every workload has a figure of the first peer, and of
    each other one a figure or a note that says why there is none."""
    command = [sys.executable, "-m", "tests.bench", "--quick", "--out", str(kept), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.load(kept)
    for one in found.measured:
        assert next(iter(one.figures.values())), (one.title, one.notes)
        for peer, figure in one.figures.items():
            assert figure or one.notes.get(peer), (one.title, peer)
            assert figure is None or figure.low >= 0, (one.title, peer)
    return found


@pytest.mark.timeout(TIMEOUT_S + 20)
@pytest.mark.parametrize("parts", ["a,c", pytest.param(EVERY_PART, marks=pytest.mark.nightly)])
def test_groupd_does_these_parts_and_the_page_shows_all_of_it(tmp_path: Path, parts: str) -> None:
    found = measured(tmp_path / "kept.json", "--peers", "groupd", "--only", parts)
    assert {one.part for one in found.measured} == {part.letters for part in chosen(parts)}
    (tmp_path / "benchmarks.md").write_text(f"{BEGIN}\n{END}\n")
    write_page(found, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    shown = [one.name for one in found.measured if not LEFT_OUT.search(one.name)]
    assert [name for name in shown if name not in text] == []


def test_groupd_alone() -> None:
    sizes = ["--seconds", "0.1", "--members", "20", "--offsets", "200"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.self", *sizes],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for workload in ("heartbeats", "commit", "fetch", "join", "start with"):
        assert workload in done.stdout, done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT_S + 20)
def test_every_peer_answers_heartbeats_or_says_why_not(tmp_path: Path) -> None:
    found = measured(tmp_path / "kept.json", "--only", "a")
    assert found.measured
    assert all(one.figures.keys() == set(PEERS) for one in found.measured)
