"""When a test fails that talks to a started peer, the peer's log is part of the report."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    funcargs = getattr(item, "funcargs", {})
    if report.failed and "peer" in funcargs:
        report.sections.append(("peer", funcargs["peer"].logs()))
    return report
