"""`make bench-quick` as a test: everything in the suite works. No figure is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.page import BEGIN, END, LEFT_OUT, write_page
from tests.bench.parts import PARTS
from tests.support.toolchain import ROOT

TIMEOUT_S = 600


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_every_peer_does_every_workload_or_says_why_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "--quick", "--out", str(tmp_path / "kept.json")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.load(tmp_path / "kept.json")
    assert {one.part for one in found.measured} == {part.letters for part in PARTS}
    for one in found.measured:
        assert next(iter(one.figures.values())), (one.title, one.notes)
        for peer, figure in one.figures.items():
            assert figure or one.notes.get(peer), (one.title, peer)
            assert figure is None or figure.low >= 0, (one.title, peer)
    (tmp_path / "benchmarks.md").write_text(f"{BEGIN}\n{END}\n")
    write_page(found, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    shown = [one.name for one in found.measured if not LEFT_OUT.search(one.name)]
    assert [name for name in shown if name not in text] == []
