"""A started Prometheus that scrapes daemons, and the checker of its files."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports
from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import ROOT, prometheus_programs

HOST = "127.0.0.1"
START_S = 20.0
ANSWER_S = 10.0


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What promtool says, from the top of the tree."""
    return subprocess.run(
        [prometheus_programs()[1], *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class Prometheus:
    """Scrapes each job's targets every second, and judges the rules as often."""

    def __init__(
        self, directory: Path, jobs: Mapping[str, Sequence[str]], rules: Sequence[Path]
    ) -> None:
        self._directory = directory
        self._port = free_ports(HOST, 1)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": list(targets)}]}
                for name, targets in jobs.items()
            ],
        }
        directory.mkdir(parents=True, exist_ok=True)
        # JSON is YAML.
        (directory / "prometheus.yml").write_text(json.dumps(config))
        self._process: ChildProcess | None = None

    def start(self) -> None:
        self._process = process = ChildProcess(
            [
                prometheus_programs()[0],
                f"--config.file={self._directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._directory / 'data'}",
                f"--web.listen-address={HOST}:{self._port}",
            ],
            stderr_path=self._directory / "prometheus.log",
        )
        wait_until(self._answers, START_S, "Prometheus to be ready", process.output)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    def logs(self) -> str:
        return self._process.output() if self._process is not None else "(never started)"

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.running, self._process.output()
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._port}/-/ready", timeout=ANSWER_S):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """What its API answers: the field `data`."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://{HOST}:{self._port}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector", expression
        series: list[dict[str, Any]] = found["result"]
        return series

    def down(self) -> list[str]:
        """Targets that cannot be scraped, with the reason."""
        active = self.get("targets", state="active")["activeTargets"]
        return [f"{one['scrapeUrl']}: {one['lastError']}" for one in active if one["lastError"]]
