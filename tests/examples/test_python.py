"""The worked examples in Python, as their readers run them; and what all READMEs have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.example import block, run_as_its_readme_says

PYTHON = """\
python3 -m venv .venv
.venv/bin/pip install ../../.. -r requirements.txt
"""
OTHERS = """\
python3 -m venv .venv
.venv/bin/pip install ../../..
export PATH="$PWD/.venv/bin:$PATH"
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "tests"), [("confluent", 17), ("aiokafka", 9)])
def test_a_python_example(name: str, tests: int, tmp_path: Path) -> None:
    assert f"{tests} passed" in run_as_its_readme_says(name, "python3", tmp_path)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("confluent", PYTHON),
        ("aiokafka", PYTHON),
        ("java", OTHERS),
        ("go", OTHERS),
        ("node", OTHERS),
    ],
)
def test_what_readers_set_up(name: str, commands: str) -> None:
    assert block(name, "setup") == commands
