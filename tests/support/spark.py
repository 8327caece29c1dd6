"""The one Spark session of all pipeline tests: starting it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.session import spark_session

JARS = Path(__file__).parents[1] / "pipeline" / "kafka" / "target" / "lib"
"""Spark's Kafka source, from tests/pipeline/kafka/pom.xml."""


@contextmanager
def running_spark(directory: Path) -> Iterator[SparkSession]:
    """Two cores and 1 GiB; `directory` takes what Spark itself writes."""
    settings = {
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
    }
    if JARS.is_dir():
        settings["spark.jars"] = ",".join(str(path) for path in sorted(JARS.glob("*.jar")))
    session = spark_session(
        "tests", master="local[2]", driver_memory="1g", shuffle_partitions=2, settings=settings
    )
    try:
        yield session
    finally:
        session.stop()
