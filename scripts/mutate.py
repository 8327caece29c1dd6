"""Changes operators of `groupd/coordinator/core`, one at a time and in a copy of the tree, and says
which changes no test notices: `make mutate ROUNDS=20 SEED=1`.

Comparisons, sums, `and`, `or` and `not` are changed. A change that nobody notices is either a rule
without a test or a change that makes no difference; only a reader can tell which. The exit code is
1 if there are any.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORE = Path("groupd/coordinator/core")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "target", "node_modules")
NEAR = ("classic_group", "consumer_group", "interop", "offsets", "assignors", "core")
FAR = ("runtime", "moves", "logtools", "recording", "history", "lag", "admin", "security")
STAGES = {
    "scenarios": ["tests/scenarios/test_scenarios.py"],
    "unit tests of the core": [f"tests/unit/{name}" for name in NEAR],
    "simulator": ["tests/simulator/test_seeds.py"],
    "unit tests of its users": ["-n", "2", *(f"tests/unit/{name}" for name in FAR)],
}
"""Who is asked in turn whether there is something wrong: the quick ones first."""
ENV = {**os.environ, "GROUPD_SCENARIO_BACKENDS": "core"}
OPTIONS = ("-qx", "-p", "no:cacheprovider", "-m", "not slow and not nightly")
CAPTURED: Any = {"capture_output": True, "text": True}
TIMEOUT_S = 900
"""A change may make a loop endless. That is noticed, too."""
OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One expression of a file in other words; `start` and `end` are places in its bytes."""

    path: Path
    line: int
    start: int
    end: int
    new: str

    def shown(self) -> str:
        old = (ROOT / self.path).read_bytes()[self.start : self.end].decode()
        return f"{self.path}:{self.line}\n  - {' '.join(old.split())}\n  + {self.new}"

    def make(self, tree: Path) -> bytes:
        """Changes the file below `tree`; what it was."""
        before = (tree / self.path).read_bytes()
        after = before[: self.start] + f"({self.new})".encode() + before[self.end :]
        (tree / self.path).write_bytes(after)
        return before


def changes(path: Path) -> Iterator[Change]:
    """All changes of a file below the core."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    # Python 3.11 does not know the places inside of these.
    inner = {
        id(n) for text in ast.walk(tree) if isinstance(text, ast.JoinedStr) for n in ast.walk(text)
    }
    for node in ast.walk(tree):
        new = None if id(node) in inner else changed(node)
        if new is not None:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            yield Change(path, node.lineno, start, end, new)


def changed(node: ast.AST) -> str | None:
    """The expression with its (first) operator changed."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ast.unparse(node.operand)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHERS:
        ops = [OTHERS[type(node.ops[0])](), *node.ops[1:]]
        return ast.unparse(ast.Compare(node.left, ops, node.comparators))
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHERS:
        other = OTHERS[type(node.op)]()
        if isinstance(node, ast.BinOp):
            return ast.unparse(ast.BinOp(node.left, other, node.right))
        return ast.unparse(ast.BoolOp(other, node.values))
    return None


def noticed_by(tree: Path) -> str | None:
    """The first of STAGES in which a test fails."""
    for name, places in STAGES.items():
        command = [sys.executable, "-m", "pytest", *OPTIONS, *places]
        try:
            done = subprocess.run(command, cwd=tree, env=ENV, timeout=TIMEOUT_S, **CAPTURED)
        except subprocess.TimeoutExpired:
            return f"{name}: they do not end"
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
            return f"{name}: {(failed or lines[-3:])[0]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--below", default="", help="only in files whose path has this in it")
    options = parser.parse_args()
    files = sorted(path.relative_to(ROOT) for path in (ROOT / CORE).rglob("*.py"))
    found = [change for path in files if options.below in str(path) for change in changes(path)]
    chosen = random.Random(options.seed).sample(found, min(options.rounds, len(found)))
    lost = []
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        shutil.copytree(ROOT, tree, symlinks=True, ignore=LEFT_OUT, dirs_exist_ok=True)
        broken = noticed_by(tree)
        assert broken is None, f"a test fails without any change: {broken}"
        for number, change in enumerate(chosen, 1):
            before = change.make(tree)
            by = noticed_by(tree)
            (tree / change.path).write_bytes(before)
            shutil.rmtree(tree / ".hypothesis", ignore_errors=True)  # what failed with the change
            print(f"{number}. {change.shown()}\n  {by or 'NOBODY NOTICES'}", flush=True)
            lost += [] if by else [change]
    print(f"{len(chosen)} of {len(found)} changes made, {len(lost)} not noticed")
    for change in lost:
        print(change.shown())
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
