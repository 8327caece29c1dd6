"""The worked example in Go, as its readers run it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.example import run_as_its_readme_says


@pytest.mark.timeout(600)
def test_the_go_example(tmp_path: Path) -> None:
    output = run_as_its_readme_says("go", "go", tmp_path)
    assert re.search(r"^ok\s+example.com/billing\s", output, re.MULTILINE), output
