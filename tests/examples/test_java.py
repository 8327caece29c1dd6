"""The worked example in Java, as its readers run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.example import run_as_its_readme_says


@pytest.mark.timeout(600)
def test_the_java_example(tmp_path: Path) -> None:
    output = run_as_its_readme_says("java", "mvn", tmp_path)
    assert "Tests run: 27, Failures: 0, Errors: 0, Skipped: 0" in output
