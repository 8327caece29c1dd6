"""`groupd-pipeline` in the process of the tests, with the Spark session that runs already."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from groupd.pipeline import command
from groupd.pipeline.cli import main


def groupd_pipeline(spark: SparkSession, arguments: Sequence[str]) -> str:
    """What it prints; fails unless its exit code is 0. Relative paths are those of the session's
    Java process."""

    @contextmanager
    def running(*_: Any) -> Iterator[SparkSession]:
        yield spark

    out = io.StringIO()
    with (
        mock.patch.object(command, "running_spark", running),
        redirect_stdout(out),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(arguments))
    assert ended.value.code == 0
    return out.getvalue()
