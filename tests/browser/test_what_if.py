"""What another assignor would do with a group, asked on its page."""

from __future__ import annotations

from tests.browser.page import Console
from tests.browser.readers import Reader
from tests.support.daemon import Daemon


def test_another_assignor_shows_its_moves(console: Console, daemon: Daemon) -> None:
    topics = ["payments", "refunds"]  # three partitions each
    with (
        Reader(daemon.bootstrap, "planned", "first", topics),
        Reader(daemon.bootstrap, "planned", "second", topics),
    ):
        console.to_group("planned")
        console.wait_until_stable(2)
        console.click(".tabs a", "What if")
        console.wait_for(".choice label", "uniform in use")
        console.wait_for(".headline", "Partitions that move 0 of 6")
        console.wait_for("#moves", "No partition would move.")
        console.click(".choice input[value], .choice label", "range")
        console.wait_for(".headline", "With range 2 to 4")
        assert "Now 3 each" in console.text(".headline")
        moves = console.texts("#moves tbody tr[data-key]")
        assert moves
        assert all("first" in move and "second" in move for move in moves)
        assert sorted(console.texts("#balance tbody td:nth-child(4)")) == ["+1", "−1"]
        console.click(".tabs a", "Now")
        console.wait_until_stable(2)


def test_a_classic_group_has_no_assignor_here(console: Console, daemon: Daemon) -> None:
    with Reader(daemon.bootstrap, "classic", "one", ["payments"], **{"group.protocol": "classic"}):
        console.to_group("classic")
        console.wait_until_stable(1)
        console.allowed = ["status of 400"]
        console.click(".tabs a", "What if")
        console.wait_for(".notice.error", "classic")
