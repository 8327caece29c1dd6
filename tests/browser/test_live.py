"""What the pages of groups show while it happens."""

from __future__ import annotations

from pathlib import Path

from tests.browser.page import Console, group_page, stable
from tests.browser.readers import Reader, ReaderProcess, commit, produce
from tests.support.daemon import Daemon

TOPIC = "orders"


def test_a_group_appears_and_its_members_with_it(console: Console, daemon: Daemon) -> None:
    console.open()
    console.wait_for("h1", "Groups")
    with Reader(daemon.bootstrap, "billing", "billing-1", [TOPIC]):
        console.wait_for(console.row("billing"), "billing-1 joined")
        console.click(f"{console.row('billing')} a")
        console.wait_for("h1", "billing")
        stable(console, 1)
        with Reader(daemon.bootstrap, "billing", "billing-2", [TOPIC]):
            console.wait_for("#members tbody", "billing-2")
            stable(console, 2)
            owned = console.texts("#members tbody td:nth-child(5)")
            assert owned == ["3", "3"]
            newest = "#rebalances .rebalances li:first-child"
            console.wait_for(newest, "billing-2 joined")
            assert "3 partitions moved" in console.text(newest)
            console.click(f"{newest} summary")
            console.wait_for(f"{newest} .steps-of li", "joined")
            console.click("#picture button", "As a table")
            console.wait_for("#picture tbody", "billing-1 orders: ")
            places = console.text("#picture tbody")
            assert "orders: 0–2" in places
            assert "orders: 3–5" in places
        console.wait_for("#rebalances", "billing-2 left")
        stable(console, 1)
    console.wait_for(".headline", "Empty")
    console.wait_for("#members", "The group has no members.")
    console.click(".crumbs a", "Groups")
    console.wait_for(console.row("billing"), "Empty")


def test_a_killed_consumer_is_fenced_and_its_partitions_move(
    console: Console, daemon: Daemon, tmp_path: Path
) -> None:
    group = "killed"
    with (
        ReaderProcess(tmp_path, daemon.bootstrap, group, "victim", TOPIC) as victim,
        Reader(daemon.bootstrap, group, "heir", [TOPIC]),
    ):
        console.open(group_page(group))
        console.browser.wait(
            """if (document.querySelector('.headline')) return true;
            location.reload(); return false"""
        )
        stable(console, 2)
        victim.kill()
        newest = "#rebalances .rebalances li:first-child"
        console.wait_for(newest, "victim was fenced")
        stable(console, 1)
        assert "3 partitions moved" in console.text(newest)
        assert console.texts("#members tbody td:nth-child(5)") == ["6"]
