"""A member reads and does not commit: the list, the tile, the banner and the tables of the group
say the same of it, at the same moment. The rounds over the lag hurry, so that a minute takes a
second."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page import Console
from tests.browser.readers import Reader, produce
from tests.browser.screenshots import HurriedDaemon
from tests.support.daemon import Daemon
from tests.support.process import wait_until

PARTITIONS = 6
TOPIC = "payments"
RECORDS = 50
RED = "rgb(179, 38, 30)"
SILENT = " is in the group, but has committed nothing for "


class WithHurriedPages(HurriedDaemon):
    def command(self) -> list[str]:
        return [*super().command(), "--pages"]


_SAMPLE = """window.seen = [];
    const text = (selector) => document.querySelector(selector)?.innerText ?? '';
    const look = () => {
      const now = [text('.group-head .badge'), text('.headline .tile:nth-child(2) .badge'),
        text('.notice.error'), text('#members .aside')];
      if (JSON.stringify(now) !== JSON.stringify(window.seen.at(-1))) window.seen.push(now);
    };
    new MutationObserver(look).observe(document.body,
      {subtree: true, childList: true, characterData: true});
    look()"""
"""Remembers what the page says, whenever that changes."""

_COLOUR = "return getComputedStyle(document.querySelector(arguments[0])).color"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = WithHurriedPages(tmp_path_factory.mktemp("daemon"))
    running.start()
    try:
        yield running
    finally:
        running.close()


def lag_page(daemon: Daemon) -> Any:
    with urllib.request.urlopen(f"{daemon.admin_url}/groups/billing/lag", timeout=20) as answer:
        return json.load(answer)


def test_a_member_that_does_not_commit_is_judged_once(console: Console, daemon: Daemon) -> None:
    with (
        Reader(daemon.bootstrap, "billing", "first", [TOPIC]),
        Reader(daemon.bootstrap, "billing", "second", [TOPIC]) as second,
    ):
        for partition in range(PARTITIONS):
            produce(daemon.bootstrap, TOPIC, partition, RECORDS)
        console.open(theme="light")
        console.to_group("billing")
        console.wait_until_stable(2)
        wait_until(lambda: lag_page(daemon)["lag"] == 0, 30, "all is committed", daemon.logs)
        console.browser.run(_SAMPLE)
        second.hang()
        for partition in range(PARTITIONS):
            produce(daemon.bootstrap, TOPIC, partition, RECORDS)
        console.wait_for(".notice.error", f" (client second at 127.0.0.1){SILENT}")
        # What it had asked for when it began to hang may still have come.
        console.wait_for(".notice.error", "0 records wait in payments-")
        console.wait_for(".headline", "0 records wait in payments-")
        assert console.text(".notice.error").endswith(". Does it poll?")
        assert console.browser.run(_COLOUR, ".headline .badge") == RED
        console.go("#/")
        console.wait_for(console.row("billing"), "stalled")
        assert console.texts("tbody tr[data-key] th") == ["billing"]
        seen = console.browser.run("return window.seen")
        second.go_on()
        console.wait_for(console.row("billing"), "ok")
    for head, tile, banner, aside in (one for one in seen if one[0]):
        is_stalled = head == "stalled"
        assert tile == head
        assert (SILENT in banner, "without a commit" in aside) == (is_stalled, is_stalled), seen
    assert [one[0] for one in seen if one[0]][-1] == "stalled"
    assert "ok" in [one[0] for one in seen]
