"""A standalone Spark cluster on this machine: a master and two workers, from PySpark's own files.

The package has no start scripts for these, but `spark-class` runs them, as documented in
docs/pipeline-report.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_START_S = 120.0
_POLL_S = 0.2


@contextmanager
def running_cluster(directory: Path, workers: int = 2, memory: str = "3g") -> Iterator[str]:
    """The master's URL, once all workers have registered. Each has one core."""
    directory.mkdir(parents=True, exist_ok=True)
    host = ("--host", "127.0.0.1")
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = directory / "master.log"
        started.append(_start(log, _MASTER, *host, "--port", "0", "--webui-port", "0"))
        url = _wait(log, _AT)
        for number in range(workers):
            log = directory / f"worker-{number}.log"
            work = ("--work-dir", str(directory / f"work-{number}"), "--webui-port", "0")
            started.append(
                _start(log, _WORKER, *host, *work, "--cores", "1", "--memory", memory, url)
            )
        for number in range(workers):
            _wait(directory / f"worker-{number}.log", re.compile(f"({_REGISTERED})"))
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def submit(master: str, script: Path, *arguments: str) -> list[str]:
    """A `spark-submit` command line."""
    return [
        str(HOME / "bin" / "spark-submit"),
        "--master",
        master,
        "--executor-memory",
        "2g",
        "--driver-memory",
        "1g",
        str(script),
        *arguments,
    ]


def environment() -> dict[str, str]:
    """The environment of whatever Spark starts: its own home, this Python, this project."""
    root = str(Path(__file__).resolve().parents[3])
    return {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }


def _start(log: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), main, *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(),
        )


def _wait(log: Path, pattern: re.Pattern[str]) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        found = pattern.search(log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(_POLL_S)
    raise RuntimeError(f"the cluster did not start: {log.read_text(errors='replace')[-2000:]}")
