"""The worked example in Node, as its readers run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.example import run_as_its_readme_says


@pytest.mark.timeout(600)
def test_the_node_example(tmp_path: Path) -> None:
    output = run_as_its_readme_says("node", "npm", tmp_path)
    assert "pass 19\n" in output
    assert "fail 0\n" in output
