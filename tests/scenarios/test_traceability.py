"""Every numbered scenario of the specifications is shown by a scenario file or a named test."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scenarios.runner.rewrite import UNEXPLAINED
from tests.scenarios.runner.run import SCENARIOS, all_scenarios
from tests.scenarios.runner.table import PATH, text

ROOT = SCENARIOS.parents[1]
SPEC = ROOT.parent / "shared" / "spec"
AREAS = ("AS", "CG", "CL", "LG", "OF")
# In a test's name (test_cg_15_...), an id, or a comment in a table of cases.
NUMBER = re.compile(rf"(?<![a-z0-9])({'|'.join(AREAS)})[-_](\d\d)(?!\d)", re.IGNORECASE)
SPEC_LINE = re.compile(rf"^- ((?:{'|'.join(AREAS)})-\d\d)\b", re.MULTILINE)


def listed(name: str) -> dict[str, str]:
    """`CG-13 reason` per line -> number to reason."""
    lines = (SCENARIOS / name).read_text().splitlines()
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {number: reason for number, _, reason in pairs}


def numbers_in(source: str) -> set[str]:
    return {f"{area.upper()}-{number}" for area, number in NUMBER.findall(source)}


def shown() -> set[str]:
    found = {number[:5] for scenario in all_scenarios() for number in scenario.numbers}
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            found |= numbers_in(path.read_text())
    return found


def test_every_number_is_shown_or_excused() -> None:
    excused = listed("uncovered.txt")
    missing = set(listed("numbers.txt")) - shown() - set(excused)
    assert not missing, f"no scenario and no test: {sorted(missing)}"


def test_no_excuse_is_left_over() -> None:
    excused = listed("uncovered.txt")
    assert all(excused.values()), "an excuse needs a reason"
    assert set(excused) <= set(listed("numbers.txt"))
    assert not set(excused) & shown()


if SPEC.is_dir():  # They are not part of the repository; numbers.txt stands in for them.

    def test_the_list_is_that_of_the_specifications() -> None:
        found = {n for path in SPEC.glob("*.md") for n in SPEC_LINE.findall(path.read_text())}
        assert sorted(found) == sorted(listed("numbers.txt"))


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
