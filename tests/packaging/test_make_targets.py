"""Every target that `make help` lists works: a test does what it does, or it is started here."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.toolchain import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()

DONE_BY = {
    "run": ("tests/support/daemon.py", '"groupd", "serve"'),
    "demo": ("tests/examples/test_demo.py", '"demo" / "demo.py"'),
    "report": ("tests/support/pipeline_command.py", "from groupd.pipeline.cli import main"),
    "bench": ("tests/bench/test_quick.py", '"tests.bench", "--quick"'),
    "bench-quick": ("tests/bench/test_quick.py", '"tests.bench", "--quick"'),
    "bench-self": ("tests/bench/test_quick.py", '"tests.bench.self"'),
    "dist": ("tests/support/distributions.py", '"scripts/dist.sh"'),
    "lint": (".ci/run", " lint "),
    "unit": (".ci/run", " unit "),
    "test": (".ci/run", "make test "),
    "test-setup": (".ci/run", " test-setup "),
    "test-lowest": (".ci/run", " test-lowest "),
}
"""Targets whose command something else runs that is run with every change: where, and a text in it
that shows so."""

STARTED: Mapping[str, tuple[str, ...]] = {
    "sim": ("SEEDS=1",),
    "sim-cluster": ("SEEDS=1",),
    "sim-shares": ("SEEDS=1",),
    "screenshots": ("ARGS=--bare --pages health --into {scratch}",),
    "bench-pipeline": ("ARGS=--records 1000 --only decoder --directory {scratch}",),
    "bench-render": ("ARGS=--docs {scratch}",),
    "bench-diff": ("BASE=HEAD", "ARGS=--quick --matching ^Start$"),
    "bench-harness": ("ARGS=--runs 1 --records 1 --fresh 0 --out {scratch}/kept.json",),
    # What these do is tested beside them; here they only start.
    "crash": ("ARGS=--help",),
    "chaos": ("ARGS=--help",),
    "chaos-cluster": ("ARGS=--help",),
    "attack": ("ARGS=--list",),
    "fuzz": ("ARGS=--help",),
    "mutate": ("ARGS=--help",),
}
"""Targets that are started here, each at its smallest size: the variables of make."""

OTHERS = {
    "help": "test_every_target_has_a_row runs it",
    "check": "lint and unit",
    "nightly": "its parts are targets with rows of their own, and tests",
    "oracle": "pytest with other variables, against what `make test` fetches, too",
    "clean": "test_clean_leaves_nothing_behind runs it",
    "distclean": "test_clean_leaves_nothing_behind runs it",
}
"""The rest, and why that is enough."""


def listed() -> set[str]:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(re.findall(r"^  make (\S+)", done.stdout, re.MULTILINE))


def recipe(target: str, given: Mapping[str, str]) -> list[list[str]]:
    """The commands of a target, without what it needs to be there first."""
    (lines,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    defaults = dict(re.findall(r"^(\w+) \?= ?(.*)$", MAKEFILE, re.MULTILINE))
    values = {**defaults, **given, "BIN": str(Path(sys.executable).parent)}
    text = re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], lines)
    return [shlex.split(line) for line in text.splitlines()]


def test_every_target_has_a_row() -> None:
    assert listed() == {*DONE_BY, *STARTED, *OTHERS}
    assert len(listed()) == len(DONE_BY) + len(STARTED) + len(OTHERS), "one row each"


@pytest.mark.parametrize("target", DONE_BY)
def test_something_else_runs_it(target: str) -> None:
    place, text = DONE_BY[target]
    assert text in (ROOT / place).read_text()


@pytest.mark.parametrize("target", STARTED)
def test_it_starts(target: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "benchmarks.md", tmp_path)
    given = dict(one.format(scratch=tmp_path).split("=", 1) for one in STARTED[target])
    for command in recipe(target, given):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    if target == "bench-render":
        current = (tmp_path / "benchmarks.md").read_text()
        assert current == (ROOT / "docs" / "benchmarks.md").read_text()


def test_clean_leaves_nothing_behind(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = (
        "dist/a.whl",
        "build/x",
        "groupd/coordinator/console/built/index.html",
        ".venv/bin/python",
    )
    for name in made:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for target, left in (("clean", [".venv/bin/python"]), ("distclean", [])):
        subprocess.run(["make", target], cwd=tmp_path, capture_output=True, check=True)
        assert [name for name in made if (tmp_path / name).exists()] == left
