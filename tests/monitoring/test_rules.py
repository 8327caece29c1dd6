"""deploy/prometheus: rules that Prometheus takes, of which each is shown to fire in a rule test,
and not to fire where all is well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.dashboards import METRIC
from tests.monitoring.names import known
from tests.support.prometheus import promtool
from tests.support.toolchain import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "rules" / "groupd.yml"
CONFIG = ROOT / "deploy" / "prometheus.yml"
TESTS = sorted((FOLDER / "tests").glob("*.yml"))
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}


def test_prometheus_takes_them() -> None:
    for done in (promtool("check", "rules", RULES), promtool("check", "config", CONFIG)):
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.stem))
def test_their_tests_pass(path: Path) -> None:
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_is_shown_to_fire_and_not_to_fire() -> None:
    fired: set[str] = set()
    calm = 0
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for one in test["promql_expr_test"]:
                assert one["expr"] in ("ALERTS", 'ALERTS{alertstate="firing"}')
                samples = one["exp_samples"]
                calm += path.stem == "healthy" and not samples
                fired |= {
                    re.findall(r'alertname="(\w+)"', sample["labels"])[0] for sample in samples
                }
    assert fired == ALERTS.keys()
    assert calm >= 10


def test_what_is_well_has_all_that_alerts_look_at() -> None:
    """An alert does not fire for want of its metric either."""
    text = (FOLDER / "tests" / "healthy.yml").read_text()
    for name, rule in ALERTS.items():
        for metric in metrics(rule):
            assert f"'{metric}{{" in text, f"{name} looks at {metric}"


def metrics(rule: dict[str, Any]) -> set[str]:
    return set(METRIC.findall(re.sub(r'"[^"]*"', "", rule["expr"])))


@pytest.mark.parametrize("name", ALERTS)
def test_it_says_what_is_wrong_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert metrics(rule) <= known()
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook"}
    assert notes["summary"].endswith(".")
    assert notes["description"].endswith(".")
    page, _, anchor = notes["runbook"].partition("#")
    assert anchor == name
    assert f'<a id="{name}"></a>' in (ROOT / page).read_text()
    if "consumergroup" in rule["expr"]:
        assert "{{ $labels.consumergroup }}" in notes["summary"]


def test_the_page_has_no_alert_that_is_gone() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    assert set(re.findall(r'<a id="(Groupd\w+)"></a>', page)) == ALERTS.keys()
