"""What the pages of groups show while it happens."""

from __future__ import annotations

from pathlib import Path

from tests.browser.page import Console
from tests.browser.readers import Reader, ReaderProcess, commit, produce
from tests.support.daemon import Daemon

TOPIC = "orders"
NEWEST = "#rebalances .rebalances > li:first-child"
OWNED = "#members tbody td:nth-child(5)"
"""How many partitions each member has."""


def test_a_group_appears_and_its_members_with_it(console: Console, daemon: Daemon) -> None:
    console.open()
    console.wait_for("h1", "Groups")
    with Reader(daemon.bootstrap, "billing", "billing-1", [TOPIC]):
        console.wait_for(console.row("billing"), "billing-1 joined")
        console.click(f"{console.row('billing')} a")
        console.wait_for("h1", "billing")
        console.wait_until_stable(1)
        with Reader(daemon.bootstrap, "billing", "billing-2", [TOPIC]):
            console.wait_for("#members tbody", "billing-2")
            console.wait_until_stable(2)
            assert console.texts(OWNED) == ["3", "3"]
            console.wait_for(NEWEST, "billing-2 joined")
            assert "3 partitions moved" in console.text(NEWEST)
            console.click(f"{NEWEST} summary")
            console.wait_for(f"{NEWEST} .steps-of li", "joined")
            assert "billing-1" in console.text(f"{NEWEST} .steps-of li")
            console.click("#picture button", "As a table")
            console.wait_for("#picture tbody", "billing-1")
            places = console.text("#picture tbody")
            assert "orders: 0–2" in places
            assert "orders: 3–5" in places
        console.wait_for(NEWEST, "billing-2 left")
        console.wait_until_stable(1)
        assert console.texts(OWNED) == ["6"]
    console.wait_for(".headline", "Empty")
    console.wait_for("#members", "The group has no members.")
    console.click(".crumbs a", "Groups")
    console.wait_for(console.row("billing"), "Empty")
    console.wait_for(console.row("billing"), "billing-1 left")


def test_a_killed_consumer_is_fenced_and_its_partitions_move(
    console: Console, daemon: Daemon, tmp_path: Path
) -> None:
    with (
        ReaderProcess(tmp_path, daemon.bootstrap, "killed", "victim", TOPIC) as victim,
        Reader(daemon.bootstrap, "killed", "heir", [TOPIC]),
    ):
        console.to_group("killed")
        console.wait_until_stable(2)
        victim.kill()
        # The session ends some seconds later: the page counts them down.
        console.wait_for("#waits", "no heartbeat until then: the member is fenced")
        console.wait_for(NEWEST, "victim was fenced: no heartbeat within the session timeout")
        console.wait_until_stable(1)
        console.wait_for(NEWEST, "3 partitions moved")
        assert console.texts(OWNED) == ["6"]


def test_who_waits_for_whom_while_a_member_does_not_give_up_its_partitions(
    console: Console, daemon: Daemon
) -> None:
    with Reader(daemon.bootstrap, "slow", "holder", [TOPIC]) as holder:
        console.to_group("slow")
        console.wait_until_stable(1)
        holder.hang()
        with Reader(daemon.bootstrap, "slow", "newcomer", [TOPIC]):
            console.wait_for("#waits li", "newcomer waits for orders-5 which is held by holder")
            console.wait_for("#waits li", "told to revoke it")
            console.wait_for("#waits li", "a revocation not confirmed until then")
            console.wait_for(".headline .epochs", "1 revoking partitions, 1 waiting for partitions")
            console.wait_for("#picture .legend", "3 being revoked")
            console.wait_for(NEWEST, "under way")
            holder.go_on()
            console.wait_for("#waits", "Nobody waits")
            console.wait_until_stable(2)
            assert "being revoked" not in console.text("#picture .legend")


def test_a_classic_group(console: Console, daemon: Daemon) -> None:
    with Reader(daemon.bootstrap, "old", "elder", [TOPIC], **{"group.protocol": "classic"}):
        console.to_group("old")
        console.wait_until_stable(1)
        assert "classic group" in console.text(".headline")
        assert "1 generation" in console.text(".headline .epochs")
        console.wait_for(NEWEST, "elder joined")
        assert console.texts(OWNED) == ["6"]
        console.go("#/")
        console.wait_for(console.row("old"), "elder joined")


def test_a_group_that_stopped_says_so_and_why(console: Console, daemon: Daemon) -> None:
    produce(daemon.bootstrap, "payments", 0, 100)
    commit(daemon.bootstrap, "ledger", "payments", {0: 60})
    console.open()
    console.wait_for(console.row("ledger"), "stopped")
    assert " 40 " in console.text(console.row("ledger"))
    console.click(".chip", "stopped")
    assert console.texts("tbody tr[data-key] th") == ["ledger"]
    console.click(f"{console.row('ledger')} a")
    console.wait_for(".headline", "stopped payments-0")
    row = console.text(console.row("payments-0"))
    assert row.startswith("payments-0 stopped 60 100 40 ")
    console.browser.wait("return document.querySelector('#lag .plot canvas') !== null")
    commit(daemon.bootstrap, "ledger", "payments", {0: 100})
    console.wait_for(f"#partitions {console.row('payments-0')}", "payments-0 ok 100 100 0")


def test_a_restart_of_the_daemon(console: Console, daemon: Daemon) -> None:
    commit(daemon.bootstrap, "patient", TOPIC, {0: 0})
    console.to_group("patient")
    console.wait_for(".stream", "Live")
    lost = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET"]
    loading = "status of 503"  # the daemon answers before it has read the group's log
    console.allowed = [*lost, loading]
    daemon.stop()
    console.wait_for(".stream", "Reconnecting")
    assert "Empty" in console.text(".headline")  # what was seen last stays
    daemon.restart()
    console.wait_for(".stream", "Live")
    with Reader(daemon.bootstrap, "patient", "late", [TOPIC]):
        console.wait_until_stable(1)
        console.wait_for("#members tbody", "late")


def test_health_shows_the_daemon(console: Console, daemon: Daemon) -> None:
    console.open("#/health")
    console.wait_for(".headline", "50 active")
    console.wait_for("#limits", "connections")
    assert "sqlite" in console.text(".headline")
    with Reader(daemon.bootstrap, "counted", "one", [TOPIC]):
        console.wait_for(".headline", "Connections")
