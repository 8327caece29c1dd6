"""Every scenario on every backend that can show it: ids like `core-CG-15`.

`GROUPD_SCENARIO_BACKENDS=core,tcp,kafka` chooses the backends; by default the real broker is left
out, as it needs Java and its jars (`make oracle`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.scenarios.runner.brokers import KINDS, Brokers
from tests.scenarios.runner.parser import Scenario
from tests.scenarios.runner.run import all_scenarios, difference, run

CHOSEN = os.environ.get("GROUPD_SCENARIO_BACKENDS", "core,tcp").split(",")
assert set(CHOSEN) <= set(KINDS), f"GROUPD_SCENARIO_BACKENDS={CHOSEN}: choose from {KINDS}"


def cases() -> Iterator[object]:
    # Sorted by settings: a real broker is started anew for each of them.
    scenarios = sorted(all_scenarios(), key=lambda one: sorted(one.pairs("config").items()))
    for kind in CHOSEN:
        for scenario in scenarios:
            if scenario.excluded(kind) is None:
                yield pytest.param(kind, scenario, id=f"{kind}-{scenario.slug}")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    started = Brokers(tmp_path_factory.mktemp("brokers"))
    yield started
    started.close()


@pytest.mark.parametrize(("kind", "scenario"), list(cases()))
def test_scenario(kind: str, scenario: Scenario, brokers: Brokers) -> None:
    for result in run(scenario, kind, brokers):
        assert result.passed, difference(scenario, kind, result)
