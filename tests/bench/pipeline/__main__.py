"""`python -m tests.bench.pipeline`: generate a log, read it in every way, print a table.

Each measurement is a process of its own (`task`), so that its memory and its CPU time are its own.
Logs and results are kept below `--directory`; what was broken off goes on with `--resume`.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import pyspark

from tests.bench.pipeline.logs import generated
from tests.bench.pipeline.results import Results, table
from tests.bench.pipeline.ways import WAYS, measure
from tests.support.daemon import ROOT

WARM_UP_RECORDS = 20_000
RESULTS = "results.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pipeline", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--directory", type=Path, default=Path("build/bench-pipeline"))
    parser.add_argument("--only", nargs="+", default=[""], help="ways whose name has one of these")
    parser.add_argument("--resume", action="store_true", help="without what is measured already")
    parser.add_argument("--list", action="store_true", help="the ways, and nothing else")
    parser.add_argument("--clean", action="store_true", help="remove the logs at the end")
    options = parser.parse_args()
    if options.list:
        print("\n".join(way.name for way in WAYS))
        return
    directory = options.directory.resolve()
    ways = [way for way in WAYS if any(text in way.name for text in options.only)]
    results = Results(directory / RESULTS, resumed=options.resume)
    code, facts = _code(), _facts()
    warm_up = generated(directory, WARM_UP_RECORDS)
    for size in options.records:
        for way in ways:
            if (size, way.name) in results:
                continue
            logs = generated(directory, size)
            result = measure(way, size, logs, warm_up, directory, code)
            results.add(result, facts)
            print(f"{size:,} {way.name}: {result.rate:,.0f} records per CPU second", flush=True)
    print(f"\n{facts}\n\n{table(results.in_order())}")
    if options.clean:
        for logs in directory.iterdir():
            if logs.is_dir():
                shutil.rmtree(logs)


def _facts() -> str:
    facts = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return facts + f", Spark {pyspark.__version__}, {time.strftime('%Y-%m-%d')}"


def _code() -> str:
    """The commit that is measured, "+" with changes; "" where this is no git work tree."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
