"""Makes a Spark session with the settings that the pipeline needs, and finds its Java.

A small log gets settings of its own, as Spark would otherwise spend most of its time on
preparation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import groupd
from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.segments import partition_files
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.inputs import Origin
from groupd.pipeline.store import store_url
from groupd.storage.log import StoreRefused
from groupd.storage.open import database_file

# Under `spark-submit` the session is the cluster's, and only settings that the results depend on
# are changed. Spark runs on Java, which Python cannot install, so a missing Java gives a one-line
# error.

JAVA_NEEDED = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOW = (
    f"install Java {JAVA_NEEDED} or newer (Debian: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk; all: https://adoptium.net) and put it on PATH or into JAVA_HOME"
)
_VERSION_TIMEOUT_S = 30

RESULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
"""Settings that the results depend on, wherever Spark runs."""

TRANSFER = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""Rows of a batch for Python workers, without a limit of bytes. With such a limit Spark measures
the batch after every row. Here, with lists in columns that are mostly null, each measurement goes
over all rows of the batch, and with 10,000 rows that takes most of a job's time. The greatest
number means no limit; the smaller number of rows bounds the memory instead."""

_LOCAL = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": "spark-warehouse",
    "spark.sql.catalogImplementation": "in-memory",
}


def java_version(java: str | None = None) -> int:
    """The major version of the Java that Spark would start. Raises PipelineError if there is none
    or it is too old."""
    home = os.environ.get("JAVA_HOME")
    command = java or (str(Path(home) / "bin" / "java") if home else shutil.which("java"))
    if command is None:
        raise PipelineError(f"Spark needs Java and there is none: {_HOW}")
    try:
        done = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        where = " (of JAVA_HOME)" if home and java is None else ""
        raise PipelineError(f"{command}{where} does not start ({error}): {_HOW}") from error
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None:
        raise PipelineError(f"{command} does not say which Java it is: {_HOW}")
    version = int(found[1])
    if version < JAVA_NEEDED:
        raise PipelineError(f"{command} is Java {version}, which is too old for Spark: {_HOW}")
    return version


def submitted() -> bool:
    """Whether `spark-submit` started this process and a session is available."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def spark_session(
    name: str = "groupd-pipeline",
    *,
    master: str | None = None,
    driver_memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process. Raises PipelineError without a suitable Java.

    `master`: `local[*]` if not given; ignored under `spark-submit`, as is the memory. `settings`:
    Spark's own settings, which override all others.
    """
    builder = SparkSession.builder.appName(name)
    values = RESULTS | TRANSFER
    if not submitted():
        java_version()
        let_workers_import()
        master = master or "local[*]"
        values |= {"spark.master": master, "spark.driver.memory": driver_memory}
        if master.startswith("local"):
            values |= _LOCAL
            values["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
    for key, value in (values | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _cores(master: str) -> int:
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else os.cpu_count() or 1


def let_workers_import() -> None:
    """Sets what Python workers, which are separate processes, need: the same Python and import
    path."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The directory above the package groupd: its own folders would hide packages of users.
    here = str(Path(groupd.__file__).resolve().parents[1])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if here not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *paths])


# Small logs ---------------------------------------------------------------------------------

# Spark generates Java code for every query. The virtual machine compiles that code twice; the
# second, thorough time pays off only if the code runs for minutes. A small log takes less. So its
# queries are compiled once, quickly, and one thread collects garbage.

SMALL_BYTES = 256 * 1024 * 1024
"""The largest log that counts as small. As segments that is some two million records."""

SMALL_LOG_SETTINGS: Mapping[str, str] = {
    # With the first compiler alone Java keeps 48 MB for compiled code, which several jobs can fill.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:ReservedCodeCacheSize=240m"
}
"""Settings of Spark for a small log."""


def small_log_settings(origin: Origin) -> dict[str, str]:
    """Settings of Spark, to be given before it starts."""
    size = log_bytes(origin)
    return dict(SMALL_LOG_SETTINGS) if size is not None and size <= SMALL_BYTES else {}


def log_bytes(origin: Origin) -> int | None:
    """The size of the segment files, database file or lake on this machine; None if that cannot be
    looked up at once."""
    try:
        if origin.segments is not None:
            files = partition_files(Path(origin.segments)).values()
            return sum(file.stat().st_size for paths in files for file in paths)
        if origin.store is not None:
            found = database_file(store_url(origin.store), ".")
            return None if found is None else found.stat().st_size
        if origin.lake is not None and "://" not in origin.lake:
            return sum(one.stat().st_size for one in Path(origin.lake).rglob("*.parquet"))
    except (LogToolError, StoreRefused, OSError):
        pass  # the error will be reported when the log is read
    return None
