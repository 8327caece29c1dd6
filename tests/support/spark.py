"""The one Spark session of all pipeline tests: starting it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from groupd.pipeline.session import SMALL_LOG_SETTINGS, spark_session
from tests.support.toolchain import SPARK_KAFKA_LIB, spark_kafka_jars


@contextmanager
def running_spark(directory: Path) -> Iterator[SparkSession]:
    """Two cores and 1 GiB; `directory` takes what Spark itself writes."""
    settings = {
        **SMALL_LOG_SETTINGS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
    }
    if SPARK_KAFKA_LIB.is_dir():
        settings["spark.jars"] = ",".join(str(path) for path in spark_kafka_jars())
    session = spark_session("tests", master="local[2]", settings=settings)
    try:
        yield session
    finally:
        session.stop()
