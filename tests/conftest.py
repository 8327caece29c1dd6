"""When a test fails that talks to a started peer, the peer's log is part of the report."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A started server for all tests that neither stop it nor change its settings."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    funcargs = getattr(item, "funcargs", {})
    if report.failed and "peer" in funcargs:
        report.sections.append(("peer", funcargs["peer"].logs()))
    return report
