"""The page of scenarios by backend in `docs/spec/`: what differs where, and why.

`python -m tests.scenarios.runner.table` writes it; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.scenarios.runner.brokers import KINDS
from tests.scenarios.runner.parser import Scenario
from tests.scenarios.runner.run import all_scenarios

PATH = Path(__file__).resolve().parents[3] / "docs" / "spec" / "scenarios.md"
NAMES = {
    "core": "the core",
    "tcp": "groupd",
    "kafka": "Apache Kafka 4.4.0",
}


def text(scenarios: Iterable[Scenario]) -> str:
    """The whole document."""
    listed = list(scenarios)
    lines = [
        "# Conformance scenarios by backend",
        "",
        "Generated from `tests/scenarios/*.scenario` by `python -m tests.scenarios.runner.table`.",
        "",
        "| backend | scenarios | shown | with a difference |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        shown = [one for one in listed if one.excluded(kind) is None]
        different = [one for one in shown if _reasons(one, kind)]
        lines.append(f"| {NAMES[kind]} | {len(listed)} | {len(shown)} | {len(different)} |")
    differences = [
        f"| {scenario.slug} | {scenario.title} | {NAMES[kind]} | {reason} |"
        for scenario in listed
        for kind in KINDS
        for reason in _reasons(scenario, kind)
    ]
    header = ["| scenario | title | backend | why |", "|---|---|---|---|"]
    lines += ["", "## Differences", "", *([*header, *differences] if differences else ["None."])]
    lines += ["", "## Not shown", "", "| why | not on | scenarios |", "|---|---|---|"]
    for (reason, kinds), slugs in sorted(_exclusions(listed).items()):
        lines.append(f"| {reason} | {kinds} | {', '.join(slugs)} |")
    return "\n".join(lines) + "\n"


def _reasons(scenario: Scenario, kind: str) -> list[str]:
    found = [one.variants[kind].reason for one in scenario.blocks if kind in one.variants]
    return list(dict.fromkeys(found))


def _exclusions(scenarios: Iterable[Scenario]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for scenario in scenarios:
        by_reason: dict[str, list[str]] = {}
        for kind in KINDS:
            reason = scenario.excluded(kind)
            if reason is not None:
                by_reason.setdefault(reason, []).append(NAMES[kind])
        for reason, kinds in by_reason.items():
            found.setdefault((reason, ", ".join(kinds)), []).append(scenario.slug)
    return found


if __name__ == "__main__":
    PATH.write_text(text(all_scenarios()))
