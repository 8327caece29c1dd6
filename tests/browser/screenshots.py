"""Makes the pictures of the console in docs/images: `make screenshots`, which takes two minutes."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.browser.hurried import __name__ as HURRIED
from tests.browser.page import Console, group_page
from tests.browser.scene import Scene
from tests.browser.small_png import small
from tests.support.browser import Browser, running_browser
from tests.support.daemon import ROOT, Daemon

WIDTHS = (1440, 390)
TELEPHONE_HEIGHT = 844
HEIGHTS = {
    "groups": 556,
    "group": 1400,
    "what-if": 772,
    "share": 1000,
    "offsets": 1120,
    "health": 400,
}
"""On a wide screen: as much as there is to see."""

BYTES_MAX = 150_000
REBALANCING = "order-fulfilment"


class HurriedDaemon(Daemon):
    """`tests.browser.hurried` in the place of the ordinary command."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", HURRIED, str(self.data_dir)]


def _groups(console: Console) -> None:
    console.open("#/")
    console.wait_for(console.row("recommendations"), "rewound")


def _group(console: Console) -> None:
    console.open(group_page(REBALANCING))
    console.wait_for("#waits", "told to revoke it")


def _share(console: Console) -> None:
    console.open(group_page("notify"))
    console.wait_for("#records", "left")
    console.browser.run("document.getElementById('records').scrollIntoView()")


def _what_if(console: Console) -> None:
    console.open(group_page(REBALANCING, "what-if"))
    console.click(".choice label", "range")
    console.wait_for(".headline", "With range")


def _offsets(console: Console) -> None:
    console.open(group_page("nightly-export", "offsets"))
    console.click("#move label", "Shift")
    console.write("#move .field input", "-25")
    console.click("#move button", "Preview")
    console.wait_for("#preview tbody tr")
    console.wait_for("#moves tbody tr")


def _health(console: Console) -> None:
    console.open("#/health")
    console.wait_for("#limits li")


PAGES: dict[str, Callable[[Console], None]] = {
    "groups": _groups,
    "group": _group,
    "share": _share,
    "what-if": _what_if,
    "offsets": _offsets,
    "health": _health,
}


def take(browser: Browser, console: Console, page: str, directory: Path) -> None:
    """The page in both themes at all widths."""
    for theme in ("light", "dark"):
        for width in WIDTHS:
            browser.resize(width, HEIGHTS[page] if width == WIDTHS[0] else TELEPHONE_HEIGHT)
            console.open(theme=theme)
            PAGES[page](console)
            browser.run("document.activeElement.blur()")
            # Charts are drawn in the next frame, numbers come once more.
            browser.run_async("requestAnimationFrame(() => setTimeout(done, 300))")
            target = directory / f"console-{page}-{theme}-{width}.png"
            browser.screenshot(target)
            target.write_bytes(small(browser, target.read_bytes()))
            assert target.stat().st_size < BYTES_MAX, target
            print(target.name, target.stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--pages", nargs="*", default=list(PAGES), choices=list(PAGES))
    parser.add_argument("--stay", action="store_true", help="serve until interrupted")
    parser.add_argument("--bare", action="store_true", help="without groups: the page health")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        daemon = HurriedDaemon(directory)
        daemon.start()
        scene = Scene(daemon.bootstrap, directory)
        try:
            if not arguments.bare:
                scene.play()
            with running_browser(directory / "profile") as browser:
                browser.open(daemon.admin_url)
                console = Console(browser, daemon)
                for page in arguments.pages:
                    take(browser, console, page, arguments.into)
            if arguments.stay:
                print(daemon.admin_url, flush=True)
                time.sleep(1e6)
        finally:
            scene.close()
            daemon.close()


if __name__ == "__main__":
    main()
