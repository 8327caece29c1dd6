"""`python -m tests.bench.page_times`: how long each page of the console takes until its first
content is there, in headless Chromium, from the request for the page on: with 10,000 groups, and
about one group of 10,000 members. The first load is that of a new browser; after that the median
of the others."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from tests.bench.figures import machine
from tests.bench.stalls.store import HUGE, Sizes, fill
from tests.browser.page import group_page
from tests.support.browser import Browser, running_browser
from tests.support.daemon import Daemon

SIZES = Sizes(huge=10_000, members=110_000, offsets=150_000, laps=1)
PAGES = {
    "Groups": ("#/", "tr[data-key]"),
    "the large group": (group_page(HUGE), "#members tr[data-key]"),
    "What if": (group_page(HUGE, "what-if"), ".choice label"),
    "Offsets": (group_page(HUGE, "offsets"), "#move label"),
    "Health": ("#/health", "#limits li"),
}
"""Address, and what is there once there is something to read."""

SETTINGS = {
    "group.consumer.session.timeout.ms": "3600000",
    "group.consumer.max.session.timeout.ms": "3600000",
}
NOTED = """
new MutationObserver(() => {
  if (window.shownAfterMs === undefined && document.querySelector(%r) !== null)
    window.shownAfterMs = performance.now();
}).observe(document, { childList: true, subtree: true });
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.page_times", description=__doc__)
    parser.add_argument("--loads", type=int, default=7, help="of each page, after the first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupd-pages-") as directory:
        path = Path(directory)
        asyncio.run(fill(path / "data", SIZES))
        daemon = Daemon(path, settings=SETTINGS, arguments=["--log-level", "warning"])
        daemon.start()
        try:
            print(machine() + "\n")
            print("| page | in a new browser, s | later, s |")
            print("|---|---|---|")
            for page, (fragment, selector) in PAGES.items():
                with running_browser(path / page) as browser:
                    url = f"{daemon.admin_url}/{fragment}"
                    browser.devtools(
                        "Page.addScriptToEvaluateOnNewDocument", {"source": NOTED % selector}
                    )
                    first, *others = (_load(browser, url) for _ in range(options.loads + 1))
                print(f"| {page} | {first:.2f} | {statistics.median(others):.2f} |", flush=True)
        finally:
            daemon.stop()


def _load(browser: Browser, url: str) -> float:
    """Seconds until the content was there."""
    browser.open("about:blank")  # another fragment alone loads nothing
    browser.open(url)
    ms: float = browser.wait("return window.shownAfterMs")
    return ms / 1000


if __name__ == "__main__":
    main()
