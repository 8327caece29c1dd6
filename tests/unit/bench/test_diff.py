"""`make bench-diff`: its table, and what it does with a commit that there is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.diff import rows as rows_module
from tests.bench.diff.__main__ import work_tree
from tests.bench.diff.rows import Row, Sizes, rows
from tests.bench.diff.table import HEAD, Measured, line
from tests.bench.peers.processes import GROUPD, GROUPD_BEFORE
from tests.support.toolchain import ROOT


@pytest.mark.parametrize("base", ["", "no-such-commit", "--help-me", "HEAD:README.md"])
def test_a_bad_base_is_one_line_and_exit_code_2(base: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.diff", "--", base],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"bench-diff: BASE={base}: no commit of this repository\n"


def test_the_work_tree_of_a_commit_is_removed_also_after_an_error() -> None:
    def fail() -> None:
        assert (tree / "groupd" / "__main__.py").is_file()
        raise KeyError(tree)

    with pytest.raises(KeyError), work_tree("HEAD") as tree:
        fail()
    assert not tree.exists()
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert str(tree) not in listed.stdout


def test_a_line_has_medians_calls_and_ratios() -> None:
    row = Measured("Commit", "us a request", [40.0, 20.0, 30.0], [12.0, 15.0, 18.0], (168, 84))
    assert line(row).split() == [
        *("Commit", "30.0", "15.0", "0.50", "us", "a", "request", "168", "84", "0.50"),
    ]
    assert HEAD.index("new") + len("new") == line(row).index("15.0") + len("15.0")


def test_what_a_tree_cannot_do_and_what_is_not_counted() -> None:
    row = Measured("Start", "ms", [], [30.0], None, "cannot: no such flag")
    assert line(row).split() == [
        *("Start", "cannot", "30.0", "-", "ms", "-", "-", "-"),
        *("cannot:", "no", "such", "flag"),
    ]
    assert line(Measured("Join", "us", [5.0], [5.0], (None, 7))).split()[-3:] == [
        "cannot",
        "7",
        "-",
    ]


def test_a_tree_that_fails_has_no_figures_but_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(peer: str) -> float:
        if peer == GROUPD_BEFORE:
            raise RuntimeError("the daemon did not start: unknown flag\nand more")
        return 7.0

    def count(wanted: object, tree: Path | None) -> object:
        raise LookupError(tree)

    monkeypatch.setattr(rows_module, "count", count)
    found = Row("Start", "ms", cost, "commit-1").measured(2, Path("before"))
    assert (found.old, found.new, found.calls) == ([], [7.0, 7.0], (None, None))
    assert found.note == "cannot: the daemon did not start: unknown flag"


def test_the_rows_are_a_fixed_list() -> None:
    names = [row.name for row in rows(Sizes())]
    assert len(names) == len(set(names))
    for what in ("Heartbeats, 100", "Commit of 100", "Fetch of 10 ", "Join of 1,000", "TLS", "ACL"):
        assert any(what in name for name in names), what
    assert {GROUPD, GROUPD_BEFORE} == set(rows_module.PEERS)
