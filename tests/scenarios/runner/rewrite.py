"""`python -m tests.scenarios.runner.rewrite [--backend core|tcp|kafka] [NUMBER ...]`

Runs scenarios and writes what happened into their files; then review the diff. From the core it
becomes the expectation; from another backend, a variant where it differs, with the reason "?"
that a person must replace (a test refuses it).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.scenarios.runner.brokers import KINDS, Brokers
from tests.scenarios.runner.interpreter import visible
from tests.scenarios.runner.parser import Expectation, Scenario, read_file, write_file
from tests.scenarios.runner.run import Result, files, run

UNEXPLAINED = "?"


def rewrite(scenario: Scenario, kind: str, brokers: Brokers) -> None:
    """Put what `kind` shows into the scenario's blocks."""
    for result in run(scenario, kind, brokers):
        if not result.passed:
            _take_over(result, kind)


def _take_over(result: Result, kind: str) -> None:
    block = result.block
    if kind == "core":
        comments = [line for line in block.expected.lines if line.startswith("#")]
        block.expected.lines = [*comments, *result.actual]
    elif result.actual == visible(block.expected.lines, kind):
        block.variants.pop(kind, None)
    elif kind in block.variants:
        block.variants[kind].lines = result.actual
    else:
        block.variants[kind] = Expectation(result.actual, UNEXPLAINED)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rewrite the expectations of scenario files.")
    parser.add_argument("--backend", choices=KINDS, default="core")
    parser.add_argument("numbers", nargs="*", help="CG-15 ...; nothing: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        brokers = Brokers(Path(directory))
        try:
            for path in files():
                scenarios = read_file(path)
                for scenario in scenarios:
                    wanted = not arguments.numbers or {*arguments.numbers} & {*scenario.numbers}
                    if wanted and scenario.excluded(arguments.backend) is None:
                        rewrite(scenario, arguments.backend, brokers)
                write_file(path, scenarios)
        finally:
            brokers.close()


if __name__ == "__main__":
    main()
