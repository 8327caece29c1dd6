"""The plugins that the tests use, and the log of a started peer in the report of a failed test."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import structlog

from groupd.testing import pytest_plugin
from tests.support import examples, hangs, kafka_python, spreading
from tests.support.postgres import PostgresServer, running_postgres

pytest_plugins = ["pytester"]

# By these names the links at the top of the tree would load all of it a second time (ADR 45). So
# their import fails, also where the name is in a string, which ruff does not see.
for folder in ("coordinator", "pipeline", "protocol", "storage"):
    sys.modules[folder] = None  # type: ignore[assignment]

examples.register_profiles()


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugins. Where groupd is installed, its entry point has registered its own
    already."""
    if not config.pluginmanager.has_plugin("groupd"):
        config.pluginmanager.register(pytest_plugin, "groupd")
    config.pluginmanager.register(hangs, "hangs")
    config.pluginmanager.register(kafka_python, "kafka_python")
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(spreading, "spreading")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A started server for all tests that neither stop it nor change its settings."""
    with running_postgres() as server:
        yield server


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    report: pytest.TestReport = (yield).get_result()
    funcargs = getattr(item, "funcargs", {})
    if report.failed and "peer" in funcargs:
        report.sections.append(("peer", funcargs["peer"].logs()))


@pytest.fixture(autouse=True)
def _the_collector_is_left_alone() -> Iterator[None]:
    """What one test freezes stays in memory for all later ones, and Hypothesis warns about it."""
    before = gc.get_freeze_count()
    yield
    assert gc.get_freeze_count() <= before


@pytest.fixture(autouse=True)
def _no_logs_on_stdout() -> Iterator[None]:
    """`structlog.testing.capture_logs` leaves structlog configured with its defaults, so that the
    brokers of later tests would print their logs among what those tests read. Fixtures of a module
    or session use it before this one begins, tests use it afterwards."""
    _reset_default_logs()
    yield
    _reset_default_logs()


def _reset_default_logs() -> None:
    factory = structlog.get_config()["logger_factory"]
    if structlog.is_configured() and isinstance(factory, structlog.PrintLoggerFactory):
        structlog.reset_defaults()
