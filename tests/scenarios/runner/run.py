"""Scenario files found, run and compared; shared by pytest and by `--rewrite`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from tests.scenarios.runner.brokers import Brokers
from tests.scenarios.runner.interpreter import Execution, expected_lines
from tests.scenarios.runner.parser import RULE, Block, Scenario, read_file

SCENARIOS = Path(__file__).resolve().parents[1]


def files() -> list[Path]:
    return sorted(SCENARIOS.glob("*.scenario"))


def all_scenarios() -> list[Scenario]:
    return [scenario for path in files() for scenario in read_file(path)]


@dataclass(frozen=True, slots=True)
class Result:
    """One block: what it should have led to, and what it did."""

    block: Block
    expected: list[str]
    actual: list[str]

    @property
    def passed(self) -> bool:
        return self.expected == self.actual


def run(scenario: Scenario, kind: str, brokers: Brokers) -> Iterator[Result]:
    """Runs it block by block; the caller decides whether to go on after a difference."""
    backend = brokers.backend(kind, scenario.pairs("config"))
    try:
        execution = Execution(scenario, backend)
        for block in scenario.blocks:
            expected = expected_lines(block, kind)
            yield Result(block, expected, execution.run(block, expected))
    finally:
        backend.finish()


def difference(scenario: Scenario, kind: str, result: Result) -> str:
    """The text of a failure: where, after what, and what differs."""
    block = result.block
    where = f"{scenario.path.name}:{block.line} {scenario.slug} on {kind}"
    diff = unified_diff(result.expected, result.actual, "expected", "actual", lineterm="", n=9)
    return "\n".join([where, *block.commands, RULE, *diff])
