"""Every numbered scenario of `docs/spec/` is shown by a scenario file or a named test."""

from __future__ import annotations

import re
from pathlib import Path
from string import ascii_lowercase

from tests.scenarios.runner.rewrite import UNEXPLAINED
from tests.scenarios.runner.run import SCENARIOS, all_scenarios
from tests.scenarios.runner.table import PATH, text

ROOT = SCENARIOS.parents[1]
RULES = ROOT / "docs" / "spec"
AREAS = ("AS", "CG", "CL", "LG", "OF", "SE", "SG")
# In a test's name (test_cg_15_...), an id, or a comment in a table of cases.
NUMBER = re.compile(rf"(?<![a-z0-9])({'|'.join(AREAS)})[-_](\d\d\d?)(?!\d)", re.IGNORECASE)
SCENARIO = re.compile(rf"^- <a id=\"((?:{'|'.join(AREAS)})-\d\d\d?)\">", re.MULTILINE)


def excuses() -> dict[str, str]:
    """Number -> why it is not shown; a line each in `uncovered.txt`."""
    lines = (SCENARIOS / "uncovered.txt").read_text().splitlines()
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {number: reason for number, _, reason in pairs}


def required() -> set[str]:
    """The numbers of all scenarios of what is served, as the rules list them."""
    return {n for page in RULES.glob("*.md") for n in SCENARIO.findall(page.read_text())}


def numbers_in(source: str) -> set[str]:
    return {f"{area.upper()}-{number}" for area, number in NUMBER.findall(source)}


def shown() -> set[str]:
    found = {
        number.rstrip(ascii_lowercase)
        for scenario in all_scenarios()
        for number in scenario.numbers
    }
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            found |= numbers_in(path.read_text())
    return found


def test_the_rules_list_scenarios_of_every_area() -> None:
    assert len(required()) > 300
    assert {number[:2] for number in required()} == set(AREAS)


def test_every_number_is_shown_or_excused() -> None:
    missing = required() - shown() - set(excuses())
    assert not missing, f"no scenario and no test: {sorted(missing)}"


def test_no_excuse_is_left_over() -> None:
    excused = excuses()
    assert all(excused.values()), "an excuse needs a reason"
    assert set(excused) <= required()
    assert not set(excused) & shown()


def test_slugs_are_unique_and_options_have_reasons() -> None:
    scenarios = all_scenarios()
    slugs = [number for scenario in scenarios for number in scenario.numbers]
    assert len(slugs) == len(set(slugs))
    for scenario in scenarios:
        for name, value in scenario.options:
            assert name not in ("only", "not") or " -- " in value, scenario.slug


def test_differences_have_reasons_and_stand_in_the_table() -> None:
    for scenario in all_scenarios():
        for block in scenario.blocks:
            for variant in block.variants.values():
                assert variant.reason != UNEXPLAINED, f"{scenario.slug}: line {block.line}"
    assert PATH.read_text() == text(all_scenarios()), "run python -m tests.scenarios.runner.table"
