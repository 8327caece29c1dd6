"""The dashboards in deploy/grafana, as the tests read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tests.support.toolchain import ROOT

FOLDER = ROOT / "deploy" / "grafana" / "dashboards"
NAMES = ("groups", "coordinator", "cluster")
METRIC = re.compile(r"\b(?:kafka|groupd|process|python)_\w+|\bup\b")
RATE = {"$__rate_interval": "10s", "$__range": "1m"}
"""What Grafana puts in for ranges, for scrapes of one second."""


class Query(Struct, frozen=True):
    """A query of a panel, or of a variable."""

    dashboard: str
    panel: str
    text: str

    def filled(self, variables: Mapping[str, str]) -> str:
        """With the variables' values."""
        found = self.text
        for name, value in {**RATE, **variables}.items():
            found = found.replace(name, value)
        return found

    @property
    def metrics(self) -> set[str]:
        return set(METRIC.findall(re.sub(r'"[^"]*"', "", self.text)))


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def panels(name: str) -> list[dict[str, Any]]:
    """All that show something."""
    return [panel for panel in dashboard(name)["panels"] if panel["type"] != "row"]


def queries(name: str) -> Iterator[Query]:
    """Those of the panels."""
    for panel in panels(name):
        for target in panel["targets"]:
            yield Query(name, panel["title"], target["expr"])


def variables(name: str) -> Iterator[Query]:
    """Those of the variables: the series whose labels are offered."""
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert found is not None, variable
            yield Query(name, f"variable {variable['name']}", f"count by ({found[2]}) ({found[1]})")
