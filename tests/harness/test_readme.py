"""What README and docs/testing.md tell newcomers to write, run as they would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.test_plugin import SCOPE, run

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- (test_\w+)\.py -->\n```python\n(.*?)```\n", re.DOTALL)
REPORT = re.compile(r"```\n(\$ \.venv/bin/pytest -v\n.*?)```\n", re.DOTALL)


@pytest.mark.parametrize(("page", "tests"), [("README.md", 2), ("docs/testing.md", 13)])
def test_what_newcomers_copy(pytester: pytest.Pytester, page: str, tests: int) -> None:
    blocks = dict(BLOCK.findall((ROOT / page).read_text()))
    pytester.makepyfile(**{name: f"import pytest\n{code}" for name, code in blocks.items()})
    run(pytester, "", "-o", SCOPE).assert_outcomes(passed=tests)


def test_the_report_that_the_readme_shows(pytester: pytest.Pytester) -> None:
    text = (ROOT / "README.md").read_text()
    code, shown = BLOCK.search(text), REPORT.search(text)
    assert code is not None
    assert shown is not None
    result = run(pytester, code.group(2), "-v", "-o", SCOPE)
    # `run` names the file after this test, so there are fewer blanks before the percentage.
    lines = [" ".join(line.split()) for line in result.outlines]
    printed = "\n".join(lines).replace(f"{pytester._name}.py", "test_billing.py")
    for line in re.findall(r"^test_billing.*|^collecting .*", shown[1], re.MULTILINE):
        assert " ".join(line.split()) in printed, printed
