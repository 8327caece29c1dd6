"""`python -m tests.bench.pipeline`: generate a log, read it in every way, print a table.

Each measurement is a process of its own (`task`), so that its memory is its own. The log is
generated once a size and kept below `--directory`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from coordinator.cli.process import DaemonProcess
from tests.bench.pipeline import task
from tests.bench.pipeline.cluster import environment, running_cluster, submit
from tests.bench.pipeline.memory import PeakMemory
from tests.support.toolchain import spark_kafka_jars

WARM_UP_RECORDS = 20_000
RECORDS_A_GROUP = 20_000
_TIMEOUT_S = 4 * 3600
_FOR_EVER = (
    "--set",
    "offsets.retention.minutes=5256000",
    "--set",
    "groupd.history.retention.ms=-1",
)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read. `cores`: that it may use."""

    name: str
    mode: str
    cores: int
    settings: tuple[str, ...] = ()
    on_cluster: bool = False


WAYS = (
    Way("plain Python, segments", "python-segments", 1),
    Way("plain Python, store", "python-store", 1),
    Way("Spark local[1], segments", "spark-segments", 1, ("master=local[1]",)),
    Way("Spark local[2], segments", "spark-segments", 2, ("master=local[2]",)),
    Way("Spark local[1], store", "spark-store", 1, ("master=local[1]",)),
    Way("Spark local[2], store", "spark-store", 2, ("master=local[2]",)),
    Way("Spark's Kafka source, local[2]", "spark-kafka", 2, ("master=local[2]",)),
    Way("spark-submit, 2 workers, segments", "spark-segments", 2, (), True),
    Way("spark-submit, 2 workers, store", "spark-store", 2, (), True),
)


@dataclass(frozen=True, slots=True)
class Logs:
    """One log in its forms, and a small one like it."""

    directory: Path

    @property
    def segments(self) -> Path:
        return self.directory / "segments"

    @property
    def daemon(self) -> Path:
        """`DaemonProcess` keeps its data below."""
        return self.directory / "daemon"

    @property
    def store(self) -> Path:
        return self.daemon / "data"


def generated(directory: Path, records: int) -> Logs:
    logs = Logs(directory / str(records))
    groups = max(20, records // RECORDS_A_GROUP)
    for option, place in (("--segments", logs.segments), ("--data-dir", logs.store)):
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "pipeline", "generate", "--until", "now"]
            command += ["--records", str(records), "--groups", str(groups), option, str(place)]
            print(f"{place}: ", end="", flush=True)
            subprocess.run(command, check=True)
    return logs


@contextmanager
def log_of(way: Way, logs: Logs) -> Iterator[str]:
    """What `task` is told."""
    if way.mode.endswith("segments"):
        yield str(logs.segments)
    elif way.mode == "spark-kafka":
        with DaemonProcess(*_FOR_EVER, data_dir=logs.daemon, ready_timeout_s=600) as daemon:
            yield f"{daemon.kafka[0]}:{daemon.kafka[1]}"
    else:
        yield str(logs.store)


def measure(way: Way, logs: Logs, warm_up: Logs, directory: Path) -> dict[str, object]:
    with ExitStack() as stack:
        if way.on_cluster:
            scratch = directory / "cluster"
            master = stack.enter_context(running_cluster(scratch))
        log = stack.enter_context(log_of(way, logs))
        if way.mode == "spark-kafka":
            small = log  # one cluster has one log: the first pass over it is the warm-up
        else:
            small = stack.enter_context(log_of(way, warm_up))
        settings = [*way.settings, *_jars(way)]
        script = Path(task.__file__)
        if way.on_cluster:
            command = submit(master, script, way.mode, log, small, *settings)
        else:
            command = [sys.executable, "-m", task.__name__, way.mode, log, small, *settings]
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
    rate = found["records"] / found["seconds"]
    return {
        "way": way.name,
        **found,
        "records/s": round(rate),
        "records/s/core": round(rate / way.cores),
        "peak_mib": watched.total // 2**20,
        "largest_mib": watched.largest // 2**20,
    }


def _jars(way: Way) -> list[str]:
    if way.mode != "spark-kafka":
        return []
    jars = spark_kafka_jars()
    return ["spark.jars=" + ",".join(map(str, jars))]


def table(results: list[dict[str, object]]) -> str:
    """Markdown."""
    head = ("records", "way", "seconds", "records/s", "per core", "peak memory", "largest process")
    lines = [f"| {' | '.join(head)} |", "|---:|---|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {one['size']:,} | {one['way']} | {one['seconds']:.1f} | {one['records/s']:,} "
        f"| {one['records/s/core']:,} | {one['peak_mib']:,} MiB | {one['largest_mib']:,} MiB |"
        for one in results
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pipeline", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--directory", type=Path, default=Path("build/bench-pipeline"))
    parser.add_argument("--only", default="", help="ways whose name has this")
    parser.add_argument("--list", action="store_true", help="the ways, and nothing else")
    parser.add_argument("--clean", action="store_true", help="remove the logs at the end")
    options = parser.parse_args()
    ways = [way for way in WAYS if options.only in way.name]
    if options.list:
        print("\n".join(way.name for way in WAYS))
        return
    directory = options.directory.resolve()
    results = []
    warm_up = generated(directory, WARM_UP_RECORDS)
    for size in options.records:
        logs = generated(directory, size)
        for way in ways:
            result = {"size": size, **measure(way, logs, warm_up, directory)}
            results.append(result)
            print(f"{size:,} {way.name}: {result['records/s']:,} records/s", flush=True)
    facts = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    facts += f", Spark {pyspark.__version__}, {time.strftime('%Y-%m-%d')}"
    (directory / "results.json").write_text(json.dumps({"on": facts, "results": results}, indent=1))
    print(f"\n{facts}\n\n{table(results)}")
    if options.clean:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
