"""One browser and one daemon for each file. After every test: no error on the browser's console,
and no request to anybody but the daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.page import Console
from tests.support.browser import Browser, running_browser
from tests.support.daemon import Daemon, ends_well
from tests.support.peer import FAST_SETTINGS

TOPICS = {"orders": 6, "payments": 3, "refunds": 3}
SETTINGS = {
    **FAST_SETTINGS,
    "group.consumer.session.timeout.ms": "3000",
    "groupd.lag.interval.ms": "100",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("browser") / "profile") as running:
        running.devtools("Emulation.setEmulatedMedia", {"features": [CALM]})
        running.open("about:blank")
        running.requests()  # those of the browser's own first page
        yield running


CALM = {"name": "prefers-reduced-motion", "value": "reduce"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("daemon"), topics=TOPICS, settings=SETTINGS)
    running.start()
    with ends_well(running):
        yield running


@pytest.fixture
def console(browser: Browser, daemon: Daemon) -> Iterator[Console]:
    made = Console(browser, daemon)
    yield made
    browser.open("about:blank")  # its streams end
    made.check()
