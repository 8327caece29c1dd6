from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.session import java_version


def _java(directory: Path, version: str) -> str:
    path = directory / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    path.chmod(0o755)
    return str(path)


def test_times_are_utc_and_filters_reach_the_source(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.sql("SELECT timestamp_millis(0)").first()[0].timestamp() == 0  # type: ignore[index]


def test_batches_for_python_are_short_and_not_measured(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "1000"
    # Spark leaves measuring out for just this number.
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == str(2**31 - 1)


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("21", 21), ("24-ea", 24)])
def test_java_of_today_will_do(tmp_path: Path, text: str, major: int) -> None:
    assert java_version(_java(tmp_path, text)) == major


@pytest.mark.parametrize("text", ["1.8.0_402", "11.0.2", "16"])
def test_an_old_java_is_told_with_how_to_get_another(tmp_path: Path, text: str) -> None:
    with pytest.raises(PipelineError, match=r"too old for Spark: install Java 17") as raised:
        java_version(_java(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_no_java_is_told_with_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match=r"there is none: install Java 17 or newer"):
        java_version()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=r"of JAVA_HOME\) does not start"):
        java_version()
