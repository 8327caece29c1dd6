"""For every page, light and dark: nothing that axe-core objects to, and no sideways scrolling on a
telephone. With hostile names, and with the keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.page import Console, group_page
from tests.browser.readers import Reader, commit, produce
from tests.support.daemon import Daemon
from tests.support.process import wait_until

GROUP = "checkout"
TELEPHONE = 380
WIDE = 2500
HOSTILE = "<img src=x onerror=\"document.title='pwned'\">'`${1}&lt;🦄" + "w" * 152
"""Two hundred bytes: quotes, markup and a picture."""

PAGES = {
    "groups": ("#/", "tbody tr[data-key]", ""),
    "group": (group_page(GROUP), "#partitions tbody tr", ""),
    "what-if": (group_page(GROUP, "what-if"), "#moves", "Moves"),
    "offsets": (group_page(GROUP, "offsets"), "#moves tbody tr", ""),
    "health": ("#/health", "#limits li", ""),
    "unknown": ("#/nothing/here", "h1", "There is no such page"),
}
"""Where each page is, and what is on it when it is there."""


@pytest.fixture(scope="module", autouse=True)
def _readers(daemon: Daemon) -> Iterator[None]:
    """A group that has read everything, one that stopped, and one with a hostile name."""
    for partition in range(6):
        produce(daemon.bootstrap, "orders", partition, 20)
    commit(daemon.bootstrap, "stopped", "orders", {0: 3})
    hostile = Reader(daemon.bootstrap, HOSTILE, HOSTILE, ["orders"])
    with Reader(daemon.bootstrap, GROUP, "checkout-1", ["orders"]), hostile:
        yield


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_everybody_can_use_every_page_at_every_width(
    console: Console, page: str, theme: str
) -> None:
    fragment, selector, text = PAGES[page]
    console.open(fragment, theme=theme)
    console.wait_for(selector, text)
    assert console.faults() == []
    for width in (TELEPHONE, WIDE):
        assert not console.wider_than(width), width


LACKS = {
    "more": True,
    "missing": "7 shards are not active yet",
    "other_nodes": [{"node": 2, "admin": "http://two:9644/"}, {"node": 3, "admin": ""}],
}
STALE = """const [row, lacks] = arguments;
    const event = (name, data) => `event: ${name}\\ndata: ${JSON.stringify(data)}\\n\\n`;
    const snapshot = {version: 1, now_ms: 0, node: {id: 1}, rows: [row], ...lacks};
    const text = event('snapshot', snapshot) + event('stale', {told: 'the shard is loading'});
    const bytes = new TextEncoder().encode(text);
    const body = () => new ReadableStream({start: (to) => to.enqueue(bytes)});
    window.fetch = async () => new Response(body())"""
ROW = {
    "group_id": "seen-before",
    "type": "consumer",
    "state": "Stable",
    "members": 1,
    "lag": 0,
    "lag_seconds": 0,
    "judgement": "ok",
    "last_rebalance": None,
    "trend": None,
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_list_that_is_old_and_not_whole_says_so(console: Console, theme: str) -> None:
    """With the answers of a server that is in trouble."""
    console.open("#/nothing/here", theme=theme)
    console.wait_for("h1", "There is no such page")
    console.browser.run(STALE, ROW, LACKS)
    console.go("#/")
    console.wait_for(console.row("seen-before"))
    console.wait_for(".stream", "Out of date")
    notices = console.text(".notice")
    assert "not kept up to date now: the shard is loading" in notices
    assert "Groups may be missing from this list: 7 shards are not active yet." in notices
    assert "There are more groups." in notices
    assert "the groups of node 1. The other nodes serve other groups: node 2 node 3" in notices
    assert console.links(".notice") == ["http://two:9644/#/"]
    console.write("input[type=search]", "else/where")
    console.wait_for(".empty", "Which node serves the group “else/where”?")
    assert console.links(".empty")[0].endswith("#/group/else%2Fwhere")
    assert console.faults() == []
    assert not console.wider_than(TELEPHONE)


def test_hostile_names_run_nothing_and_break_nothing(console: Console) -> None:
    console.open()
    console.wait_for(console.row(HOSTILE), "<img src=x onerror=")
    console.write("input[type=search]", HOSTILE)
    console.wait_for(".summary", "(1 shown)")
    console.browser.press("Escape")
    console.click(f"{console.row(HOSTILE)} a")
    console.wait_for("h1", HOSTILE)
    console.wait_until_stable(1)
    assert "<img src=x" in console.text("#members tbody")
    console.click("#rebalances summary")
    console.wait_for("#rebalances .steps-of li", "<img src=x")
    console.click("#picture button", "As a table")
    for tab, selector in (("What if", "#balance tbody tr"), ("Offsets", "#moves tbody tr")):
        assert not console.wider_than(TELEPHONE)
        assert console.faults() == []
        console.click(".tabs a", tab)
        console.wait_for(selector, "")
    assert not console.wider_than(TELEPHONE)
    assert console.browser.run("return document.querySelectorAll('img').length") == 0
    assert console.browser.run("return document.title").endswith("offsets · groupd")


def test_from_the_list_to_a_group_and_back_by_keyboard(console: Console) -> None:
    console.open()
    console.wait_for(console.row(GROUP))
    console.browser.press("/", *GROUP)
    console.wait_for(".summary", "(1 shown)")
    console.browser.press("Down")
    console.wait_for_focus(GROUP)
    console.browser.press("Enter")
    console.wait_until_stable(1)
    console.browser.press("Tab")  # the page has the focus: its first link is next
    console.wait_for_focus("Groups")
    console.browser.press("Enter")
    console.wait_for(console.row(GROUP))
    console.browser.press("/", "Enter")  # the first group of all
    console.wait_for(".headline", "State")


def test_the_arrows_go_through_the_rows_and_over_the_picture(console: Console) -> None:
    console.open()
    for group in (GROUP, "stopped"):
        console.wait_for(console.row(group))
    console.browser.press("/", "Down")
    console.wait_for_focus("stopped")  # the worst one is the first
    console.browser.press("End")
    wait_until(lambda: console.focus() != "stopped", 10, "another row", console.focus)
    console.browser.press("Home")
    console.wait_for_focus("stopped")
    console.go(group_page(GROUP))
    console.wait_for("#picture .legend", "6 owned")
    console.browser.run("document.querySelector('#picture canvas').focus()")
    console.browser.press("Right", "Right")
    console.wait_for("#picture .matrix-reading", "orders-1, checkout-1: owned")


def test_a_reset_by_keyboard(console: Console, daemon: Daemon) -> None:
    commit(daemon.bootstrap, "keys", "orders", {0: 5})
    console.open(group_page("keys", "offsets"))
    console.wait_for("#move", "All 1")
    console.browser.run("document.querySelector('main').focus()")
    console.tab_to("Earliest")
    console.browser.press("Down")  # latest
    console.tab_to("Preview")
    console.browser.press("Enter")
    console.wait_for("#preview", "15 records are skipped.")
    console.tab_to("Apply …")
    console.browser.press("Enter")
    console.wait_for("dialog", "Move the offsets of keys?")
    console.wait_for_focus("Cancel")
    console.browser.press("Escape")
    console.browser.wait("return document.querySelector('dialog') === null")
    console.tab_to("Apply …")
    console.browser.press("Enter")
    console.wait_for("dialog")
    console.tab_to("Move them", key="Shift+Tab")
    console.browser.press("Enter")
    console.wait_for("#preview", "Done.")
