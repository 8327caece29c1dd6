"""What the README tells newcomers to write, run as they would; the examples run by themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.test_plugin import run

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- test_billing\.py -->\n```python\n(.*?)```\n", re.DOTALL)


def test_your_consumer_in_five_minutes(pytester: pytest.Pytester) -> None:
    found = BLOCK.search((ROOT / "README.md").read_text())
    assert found is not None
    run(pytester, found.group(1)).assert_outcomes(passed=2)
