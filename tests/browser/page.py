"""The console in a browser: what tests do with it and ask of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from tests.support.browser import Browser
from tests.support.daemon import Daemon
from tests.support.process import wait_until
from tests.support.toolchain import CONSOLE

FOCUS_S = 10.0
HEIGHT = 900
WIDTH = 1440
_TEXTS = """return [...document.querySelectorAll(arguments[0])]
    .map((node) => node.innerText.replace(/\\s+/g, ' ').trim())"""
_LINKS = """return [...document.querySelectorAll(arguments[0])]
    .flatMap((node) => [...node.querySelectorAll('a')].map((link) => link.href))"""
_SAYS = """return [...document.querySelectorAll(arguments[0])]
    .some((node) => node.innerText.replace(/\\s+/g, ' ').includes(arguments[1]))"""
_CLICK = """const found = [...document.querySelectorAll(arguments[0])]
    .filter((node) => node.innerText.includes(arguments[1]));
    if (found.length) found[0].click(); return found.length > 0"""
_TYPE = """const field = document.querySelector(arguments[0]);
    const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
    value.set.call(field, arguments[1]);
    field.dispatchEvent(new Event('input', {bubbles: true}))"""
_AXE = """const where = (one) => one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200));
    axe.run(document, {resultTypes: ['violations']}).then(
      ({violations}) => done(violations.map((one) => [one.id, ...where(one)].join(' | '))),
      (error) => done([String(error)]))"""
_FOCUS = """const node = document.activeElement;
    const words = (node?.closest('label') ?? node)?.innerText;
    return words || node?.getAttribute('aria-label') || ''"""


def group_page(group: str, page: str = "") -> str:
    """The fragment of the address of a group's page."""
    return f"#/group/{quote(group, safe='')}" + (f"/{page}" if page else "")


class Console:
    """`allowed`: messages on the browser's console that a test provokes, as patterns."""

    def __init__(self, browser: Browser, daemon: Daemon) -> None:
        self.browser, self.daemon = browser, daemon
        self.allowed: list[str] = []

    def open(self, fragment: str = "#/", *, theme: str | None = None) -> None:
        """Loads the console anew, with another theme if one is given."""
        self.browser.open("about:blank")  # another fragment alone loads nothing
        self.browser.open(f"{self.daemon.admin_url}/{fragment}")
        if theme is not None:
            self.browser.run("localStorage.setItem('groupd.theme', arguments[0])", theme)
            self.browser.run("location.reload()")

    def go(self, fragment: str) -> None:
        """Another page of the console that is open."""
        self.browser.run("location.hash = arguments[0]", fragment)

    def to_group(self, group: str) -> None:
        """From the list of groups, once the group is in it."""
        self.open()
        self.click(f"{self.row(group)} a")
        self.wait_for(".headline", "State")

    # What is there

    def texts(self, selector: str) -> list[str]:
        found = self.browser.run(_TEXTS, selector)
        assert isinstance(found, list)
        return found

    def links(self, selector: str) -> list[str]:
        """Where the links in these elements lead."""
        found = self.browser.run(_LINKS, selector)
        assert isinstance(found, list)
        return found

    def text(self, selector: str) -> str:
        return " ".join(self.texts(selector))

    def wait_for(self, selector: str, text: str = "") -> None:
        """Until an element has this text in it."""
        try:
            self.browser.wait(_SAYS, selector, text)
        except AssertionError as error:
            page = self.text("body")
            raise AssertionError(f"{error}\n{page}\n{self.daemon.logs()}") from None

    def wait_until_stable(self, members: int) -> None:
        """Until the group's page shows that all members are where they should be."""
        self.wait_for(".headline", f"{members} of {members}")
        self.wait_for(".headline", "Stable")

    def row(self, group: str) -> str:
        """The selector of a group's row in the list, or of any row by its key."""
        return f"tr[data-key={json.dumps(group, ensure_ascii=False)}]"

    def focus(self) -> str:
        """What has the keyboard, in words."""
        return str(self.browser.run(_FOCUS)).strip()

    def wait_for_focus(self, text: str) -> None:
        """Until this has the keyboard: pages give it away a moment after they are drawn."""
        wait_until(lambda: self.focus() == text, FOCUS_S, f"the focus on {text}", self.focus)

    # What is done

    def click(self, selector: str, text: str = "") -> None:
        """The first element with this text, once it is there."""
        self.browser.wait(_CLICK, selector, text)

    def write(self, selector: str, text: str) -> None:
        self.wait_for(selector)
        self.browser.run(_TYPE, selector, text)

    def tab_to(self, text: str, *, most: int = 60, key: str = "Tab") -> None:
        """Goes with the keyboard until the element whose words begin with `text` has it."""
        seen: list[str] = []
        for _ in range(most):
            self.browser.press(key)
            seen.append(self.focus())
            if seen[-1].startswith(text):
                return
        raise AssertionError(f"{text!r} is not reached: {seen}")

    # What must hold on every page

    def faults(self) -> list[str]:
        """What axe-core finds on the page as it is."""
        self.browser.run(axe_core())
        found = self.browser.run_async(_AXE)
        assert isinstance(found, list)
        return found

    def wider_than(self, width: int) -> bool:
        """Whether a page of this width scrolls sideways. Back to the usual width afterwards."""
        self.browser.resize(width, HEIGHT)
        # The charts follow in the next frame.
        self.browser.run_async("requestAnimationFrame(() => requestAnimationFrame(done))")
        found = self.browser.run("return document.documentElement.scrollWidth")
        self.browser.resize(WIDTH, HEIGHT)
        return bool(found > width)

    def check(self) -> None:
        """No error on the console since the last check, and no request to anybody else."""
        own = (self.daemon.admin_url + "/", "data:", "about:blank")
        others = [url for url in self.browser.requests() if not url.startswith(own)]
        wrong = self._not_allowed(self.browser.messages())
        assert others == [], f"requests to others: {others}"
        assert wrong == [], f"errors on the console: {wrong}"

    def _not_allowed(self, messages: Sequence[str]) -> list[str]:
        return [one for one in messages if not any(re.search(p, one) for p in self.allowed)]


def axe_core() -> str:
    """The program of axe-core, a development dependency of the page."""
    found = CONSOLE / "node_modules" / "axe-core" / "axe.min.js"
    assert found.is_file(), "axe-core is missing: run `make test-setup`"
    return found.read_text()
