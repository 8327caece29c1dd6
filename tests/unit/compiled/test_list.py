"""The list of modules that a compiled build compiles keeps its rules (ADR 23)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.compiled import check_build, listed

ROOT = Path(__file__).resolve().parents[3]
LISTED = listed(ROOT)
PACKAGES = ("coordinator", "pipeline", "protocol", "storage")


def classes(path: Path) -> Iterator[ast.ClassDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield node


def is_exception(base: ast.expr) -> bool:
    kind = getattr(builtins, base.id, None) if isinstance(base, ast.Name) else None
    return isinstance(kind, type) and issubclass(kind, BaseException)


def source_of(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


def test_every_listed_module_is_there_and_listed_once() -> None:
    assert len(set(LISTED)) == len(LISTED) > 0
    assert [module for module in LISTED if not source_of(module).is_file()] == []


def test_nobody_derives_from_a_compiled_class() -> None:
    """Classes that are not compiled cannot, but for exceptions."""
    compiled = {
        node.name
        for module in LISTED
        for node in classes(source_of(module))
        if not any(is_exception(base) for base in node.bases)
    }
    known = {source_of(module) for module in LISTED}
    others = {path for package in PACKAGES for path in (ROOT / package).rglob("*.py")} - known
    derived = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in others
        for node in classes(path)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in compiled
    }
    assert derived == set()


def test_no_compiled_class_is_made_by_a_decorator_of_ours() -> None:
    """It would fill in methods that mypyc does not know of."""
    ours = {"groupd.protocol.frozen", "groupd.protocol.values"}
    imports = {
        (module, node.module)
        for module in LISTED
        for node in ast.walk(ast.parse(source_of(module).read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in ours
    }
    assert imports == set()


def test_a_run_that_would_test_the_other_build_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.groupd]\ncompiled = ["json.scanner"]\n')
    monkeypatch.setenv("GROUPD_TEST_COMPILED", "1")
    with pytest.raises(pytest.UsageError, match=r"wanted: json\.scanner"):
        check_build(tmp_path)
