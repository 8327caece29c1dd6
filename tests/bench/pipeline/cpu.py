"""CPU seconds of a tree of processes, by what they do, from what the system says of each (Linux).

On a machine that is busy with other things the time on the clock says little. CPU time still says
nearly all: it leaves out waiting, and it has too much where others emptied the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.bench import proc

DRIVER, WORKERS, EXECUTORS = "driver JVM", "Python workers", "executor JVMs"
CLUSTER, DAEMON, PYTHON = "master and workers", "groupd", "Python"
_ROLES = (
    ("org.apache.spark.deploy.master.Master", CLUSTER),
    ("org.apache.spark.deploy.worker.Worker", CLUSTER),
    ("CoarseGrainedExecutorBackend", EXECUTORS),
    ("org.apache.spark.deploy.SparkSubmit", DRIVER),
    ("pyspark.daemon", WORKERS),
    ("pyspark/worker.py", WORKERS),
    ("pyspark.worker", WORKERS),
    ("groupd\0serve", DAEMON),
)


def cpu_seconds(root: int) -> dict[str, float]:
    """User and system time so far of all processes below `root`, by their role; those that ended
    count to the one that waited for them. `root` itself, who only looks on, is left out."""
    found: Counter[str] = Counter()
    for pid in proc.descendants(root):
        if pid == root:
            continue
        try:
            seconds = proc.cpu_seconds(pid, waited_for=True)
            line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            continue
        found[_role(line)] += seconds
    return dict(found)


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The processor seconds of each role between two samples; roles without any are left out."""
    found = {role: round(time - before.get(role, 0.0), 2) for role, time in after.items()}
    return {role: time for role, time in sorted(found.items()) if time}


def _role(line: str) -> str:
    return next((role for mark, role in _ROLES if mark in line), PYTHON)
