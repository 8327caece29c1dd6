"""A real Prometheus scrapes a daemon and a cluster under load: every query of every dashboard gives
data, every rule can be evaluated, and no alert fires where all is well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.monitoring.dashboards import NAMES, Query, queries, variables
from tests.monitoring.scene import JOBS, Scene
from tests.monitoring.test_rules import ALERTS, RULES
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until

DATA_S = 40.0
VARIABLES = {"$group": ".*", "$topic": ".*", "$instance": ".*"}
EMPTY = {
    "Throttled clients": "there are no quotas",
}
"""Panels that show nothing here, and why."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Scene]:
    url = postgres.url(postgres.emptied_database())
    made = Scene(tmp_path_factory.mktemp("monitoring"), url, RULES)
    try:
        made.start()
        yield made
    finally:
        made.close()


def without_data(scene: Scene, asked: list[Query]) -> list[Query]:
    found = []
    for query in asked:
        text = query.filled({**VARIABLES, "$job": JOBS[query.dashboard]})
        if not scene.prometheus.query(text):
            found.append(query)
    return found


def test_every_query_gives_data(scene: Scene) -> None:
    every = [query for name in NAMES for query in (*queries(name), *variables(name))]
    assert EMPTY.keys() <= {query.panel for query in every}
    open_ones = [query for query in every if query.panel not in EMPTY]

    def all_found() -> bool:
        # Only those that have given nothing so far are asked again.
        open_ones[:] = without_data(scene, open_ones)
        return not open_ones

    def missing() -> str:
        lines = (f"{query.dashboard}: {query.panel}: {query.text}" for query in open_ones)
        return "\n".join([*lines, *scene.prometheus.down(), scene.logs()])

    wait_until(all_found, DATA_S, "data for all queries", missing)
    assert scene.prometheus.down() == []


def test_every_rule_can_be_evaluated_and_nothing_fires(scene: Scene) -> None:
    def waiting() -> set[tuple[str, str]]:
        """Alerts and the groups that they are about."""
        alerts = scene.prometheus.get("alerts")["alerts"]
        assert [one for one in alerts if one["state"] == "firing"] == []
        labels = [one["labels"] for one in alerts]
        return {(one["alertname"], one.get("consumergroup", "")) for one in labels}

    expected = ("GroupdGroupWithoutMembers", "late")
    wait_until(lambda: expected in waiting(), DATA_S, "the group without members", scene.logs)
    # The others may be behind for a moment, on a machine that has other work.
    assert "done" not in {group for _, group in waiting()}
    rules = [rule for group in scene.prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == ALERTS.keys()
    assert [rule for rule in rules if rule["health"] != "ok"] == []
