"""What another assignor would do with a group, asked on its page."""

from __future__ import annotations

from tests.browser.page import Console
from tests.browser.readers import Reader, commit
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


def test_a_classic_group_shows_what_it_would_be_on_the_consumer_protocol(
    console: Console, daemon: Daemon
) -> None:
    """`range` gives the first member two partitions of each topic: 4 and 2. `uniform` evens that
    out with one move."""
    topics = ["payments", "refunds"]  # three partitions each
    classic = {"group.protocol": "classic", "partition.assignment.strategy": "range"}
    with (
        Reader(daemon.bootstrap, "classic", "first", topics, **classic),
        Reader(daemon.bootstrap, "classic", "second", topics, **classic),
    ):
        console.to_group("classic")
        console.wait_until_stable(2)
        console.click(".tabs a", "What if")
        console.wait_for(".what-if .lead", "The members of a classic group assign by themselves")
        console.wait_for(
            ".what-if",
            "Now: assigned by its members with range. Compared with the assignor uniform of the "
            "consumer protocol (group.protocol=consumer).",
        )
        assert console.texts(".choice label") == ["uniform", "range"]
        console.wait_for(".headline", "Partitions that move 1 of 6")
        console.wait_for(".headline", "With uniform 3 each")
        assert "Now 2 to 4" in console.text(".headline")
        (move,) = console.texts("#moves tbody tr[data-key]")
        assert "first" in move
        assert "second" in move
        assert sorted(console.texts("#balance tbody td:nth-child(4)")) == ["+1", "−1"]
        console.click(".choice label", "range")
        console.wait_for(".headline", "With range 2 to 4")
        console.wait_for("#moves", "No partition would move.")
        console.click(".tabs a", "Now")
        console.wait_until_stable(2)


def test_a_group_without_members_says_why_there_is_nothing(
    console: Console, daemon: Daemon
) -> None:
    commit(daemon.bootstrap, "offsets-only", "orders", {0: 3})
    console.to_group("offsets-only")
    console.allowed = ["status of 400"]
    console.click(".tabs a", "What if")
    console.wait_for(".notice.error", "the group has no members, so there is nothing to compare")
