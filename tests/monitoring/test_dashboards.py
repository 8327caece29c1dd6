"""deploy/grafana: dashboards that Grafana takes as they are, and that name only metrics that there
are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from tests.monitoring.dashboards import FOLDER, NAMES, dashboard, panels, queries, variables
from tests.monitoring.names import TYPES, known
from tests.support.deployment import serve_flags
from tests.support.toolchain import ROOT

DEPLOY = ROOT / "deploy"
PROVISIONING = DEPLOY / "grafana" / "provisioning"
SCHEMA_VERSION = 42
WIDTH = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
ONLY_GROW = {"kafka_topic_partition_current_offset"}
"""Gauges, as kafka_exporter has them, that go back only where a topic is made anew."""
BUILT_IN = {"__rate_interval", "__range"}
each = pytest.mark.parametrize("name", NAMES)


def test_these_are_all() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(NAMES)


@each
def test_it_is_taken_by_import_and_by_provisioning(name: str) -> None:
    found = dashboard(name)
    assert found["uid"] == f"groupd-{name}"
    assert found["id"] is None, "Grafana gives the number"
    assert found["schemaVersion"] == SCHEMA_VERSION
    assert "__inputs" not in found, "the data source is a variable, so nobody is asked for it"
    first = found["templating"]["list"][0]
    assert (first["name"], first["type"], first["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    for one in [*panels(name), *found["templating"]["list"][1:]]:
        assert one["datasource"] == DATASOURCE
    titles = Counter(panel["title"] for panel in panels(name))
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    assert max(titles.values()) <= 2


@each
def test_panels_do_not_lie_on_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= WIDTH, panel["title"]
        taken |= cells


@each
def test_every_panel_says_what_it_shows_and_what_to_do(name: str) -> None:
    for panel in panels(name):
        assert len(panel["description"].split()) >= 6, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["targets"], panel["title"]
        if panel["type"] in ("stat", "timeseries"):
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


@each
def test_it_names_only_metrics_and_variables_that_there_are(name: str) -> None:
    offered = {variable["name"] for variable in dashboard(name)["templating"]["list"]} | BUILT_IN
    for query in [*queries(name), *variables(name)]:
        assert query.metrics, query
        assert query.metrics <= known(), query
        assert set(re.findall(r"\$(\w+)", query.text)) <= offered, query
        assert 'job="$job"' in query.text or "variable job" in query.panel, query


@each
def test_a_rate_is_only_taken_of_what_does_not_go_back(name: str) -> None:
    """`rate` takes every drop for a restart from 0."""
    for query in queries(name):
        for metric in re.findall(r"(?:rate|increase|irate)\((\w+)", query.text):
            is_counter = metric.endswith("_total") or TYPES.get(metric) in ("counter", "untyped")
            assert is_counter or metric in ONLY_GROW, query


@each
def test_tables_name_columns_that_their_queries_have(name: str) -> None:
    for panel in panels(name):
        if panel["type"] != "table":
            continue
        columns = {f"Value #{target['refId']}" for target in panel["targets"]} | {"Time"}
        for target in panel["targets"]:
            assert target["format"] == "table"
            (labels,) = re.findall(r"^\w+ by \(([^)]*)\)", target["expr"])
            columns |= set(labels.split(", "))
        (organize,) = (
            one["options"] for one in panel["transformations"] if one["id"] == "organize"
        )
        renamed = organize["renameByName"]
        assert renamed.keys() | organize["excludeByName"].keys() == columns
        shown = set(renamed.values())
        for one in panel["fieldConfig"]["overrides"]:
            assert one["matcher"]["options"] in shown
        assert {one["displayName"] for one in panel["options"]["sortBy"]} <= shown


def loaded(*parts: str) -> Any:
    return yaml.safe_load(DEPLOY.joinpath(*parts).read_text())


def mounts(service: str) -> dict[str, str]:
    """Places in a container of deploy/compose.yaml -> places beside that file."""
    found = (one.split(":") for one in loaded("compose.yaml")["services"][service]["volumes"])
    return {one[1]: one[0] for one in found}


def test_the_containers_have_the_files_where_they_look_for_them() -> None:
    grafana = loaded("compose.yaml")["services"]["grafana"]
    places = mounts("grafana")
    (provider,) = loaded("grafana", "provisioning", "dashboards", "groupd.yml")["providers"]
    shown = places[provider["options"]["path"]]
    assert (DEPLOY / shown).resolve() == FOLDER
    home = PurePosixPath(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (DEPLOY / places[str(home.parent)] / home.name).is_file()
    assert (DEPLOY / places["/etc/grafana/provisioning"]).resolve() == PROVISIONING

    (source,) = loaded("grafana", "provisioning", "datasources", "prometheus.yml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    settings = loaded("prometheus.yml")
    assert source["jsonData"]["timeInterval"] == settings["global"]["scrape_interval"]
    assert [job["job_name"] for job in settings["scrape_configs"]] == ["groupd"]

    # Prometheus asks by a name that the admin port knows.
    flags, config = serve_flags(loaded("compose.yaml")["services"]["groupd"]["command"], {})
    (targets,) = (job["static_configs"] for job in settings["scrape_configs"])
    assert flags.admin is not None
    asked = [target.partition(":")[0] for one in targets for target in one["targets"]]
    assert set(asked) == set(config.admin_hosts)
    assert config.admin_metrics_open

    # Prometheus finds its rules beside its own file.
    places = mounts("prometheus")
    assert (DEPLOY / places["/etc/prometheus/prometheus.yml"]).is_file()
    (pattern,) = settings["rule_files"]
    folder, _, names = pattern.rpartition("/")
    assert (DEPLOY / places[f"/etc/prometheus/{folder}"]).resolve() == DEPLOY / folder
    assert [path.name for path in (DEPLOY / folder).glob(names)] == ["groupd.yml"]


def test_nobody_changes_grafana_without_a_login_that_there_is_not() -> None:
    service = loaded("compose.yaml")["services"]["grafana"]
    assert service["environment"]["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert service["environment"]["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
