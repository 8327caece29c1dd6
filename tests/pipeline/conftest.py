"""One Spark session for all tests of the pipeline. `tests/support/spreading.py` has all of them run
in one process, and first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark import running_spark

TIMEOUT_S = 300
"""Spark takes seconds where others take milliseconds, and many times that on a busy machine."""

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
