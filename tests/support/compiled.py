"""Which build a run of the tests is about: the sources, or the compiled modules (docs/compiled.md).

`make test-compiled` sets GROUPD_TEST_COMPILED=1 and runs beside an unpacked compiled wheel. A run
that would test the other one than it was asked for must not pass.
"""

from __future__ import annotations

import importlib
import os
import tomllib
from pathlib import Path

import pytest

from groupd.coordinator.compiled import compiled_modules


def listed(root: Path) -> list[str]:
    """The modules that a compiled wheel compiles."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return sorted(project["tool"]["groupd"]["compiled"])


def check_build(root: Path) -> None:
    """Raises pytest.UsageError, which ends the run."""
    wanted = listed(root) if os.environ.get("GROUPD_TEST_COMPILED") == "1" else []
    for name in wanted:
        importlib.import_module(name)
    found = compiled_modules()
    if found != wanted:
        raise pytest.UsageError(
            f"compiled modules: {', '.join(found) or 'none'}; wanted: {', '.join(wanted) or 'none'}"
        )
