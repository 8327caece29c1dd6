"""The ways to read a log, and the measurement of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.daemon_process import DaemonProcess
from tests.bench.pipeline import task
from tests.bench.pipeline.cluster import environment, running_cluster, submit
from tests.bench.pipeline.logs import Logs
from tests.bench.pipeline.memory import PeakMemory
from tests.bench.pipeline.results import Result
from tests.support.toolchain import spark_kafka_jars

_TIMEOUT_S = 4 * 3600
_READY_S = 1800
_FOR_EVER = (
    "--set",
    "offsets.retention.minutes=5256000",
    "--set",
    "groupd.history.retention.ms=-1",
)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read."""

    name: str
    mode: str
    settings: tuple[str, ...] = ()
    on_cluster: bool = False


WAYS = (
    Way("plain Python, segments", "python-segments"),
    Way("plain Python, store", "python-store"),
    Way("the pipeline's decoder without Spark, segments", "decoder-segments"),
    Way("Spark local[1], segments", "spark-segments", ("master=local[1]",)),
    Way("Spark local[2], segments", "spark-segments", ("master=local[2]",)),
    Way("Spark local[1], store", "spark-store", ("master=local[1]",)),
    Way("Spark local[2], store", "spark-store", ("master=local[2]",)),
    Way("Spark's Kafka source, local[2]", "spark-kafka", ("master=local[2]",)),
    Way("spark-submit, 2 workers, segments", "spark-segments", (), True),
    Way("spark-submit, 2 workers, store", "spark-store", (), True),
)


def measure(way: Way, size: int, logs: Logs, warm_up: Logs, directory: Path, code: str) -> Result:
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        command = _command(stack, way, logs, warm_up, directory)
        watched = stack.enter_context(PeakMemory(os.getpid()))
        process = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=_TIMEOUT_S,
            check=False,
        )
        if process.returncode:
            raise SystemExit(f"{way.name} failed\n{process.stderr[-3000:]}")
    found = json.loads(process.stdout.strip().splitlines()[-1])
    return Result(
        size,
        way.name,
        found["records"],
        found["seconds"],
        found["cpu"],
        watched.total // 2**20,
        watched.largest // 2**20,
        (load, os.getloadavg()[0]),
        code,
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def _command(stack: ExitStack, way: Way, logs: Logs, warm_up: Logs, directory: Path) -> list[str]:
    """The command that measures; what it needs has been started."""
    if way.on_cluster:
        master = stack.enter_context(running_cluster(directory / "cluster"))
    log = stack.enter_context(_log_of(way, logs))
    # One daemon has one log: there, a first pass over the whole of it is the warm-up.
    small = log if way.mode == "spark-kafka" else stack.enter_context(_log_of(way, warm_up))
    arguments = [way.mode, log, small, str(os.getpid()), *way.settings]
    if way.mode == "spark-kafka":
        arguments.append("spark.jars=" + ",".join(map(str, spark_kafka_jars())))
    if way.on_cluster:
        return submit(master, Path(task.__file__), *arguments)
    return [sys.executable, "-m", task.__name__, *arguments]


@contextmanager
def _log_of(way: Way, logs: Logs) -> Iterator[str]:
    """The log's place, as `task` is told it."""
    if way.mode.endswith("segments"):
        yield str(logs.segments)
    elif way.mode == "spark-kafka":
        with DaemonProcess(*_FOR_EVER, data_dir=logs.daemon, ready_timeout_s=_READY_S) as daemon:
            yield f"{daemon.kafka[0]}:{daemon.kafka[1]}"
    else:
        yield str(logs.store)
