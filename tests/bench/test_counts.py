"""A request calls as many Python functions, and allocates as much, as kept.json says; and what the
test says where it does not. No time is measured: counts are the same on every machine."""

from __future__ import annotations

import pytest

from tests.bench.counts import kept
from tests.bench.counts.rows import ROWS, allocate, count
from tests.bench.counts.trace import Call, Trace, tree


@pytest.mark.timeout(600)  # starts six daemons, slowed down, on a machine that may be busy
@pytest.mark.skipif(kept.python() != kept.PYTHON, reason=f"numbers of Python {kept.python()}")
def test_requests_call_and_allocate_what_is_kept() -> None:
    calls, allocations, before = count(ROWS), allocate(ROWS), kept.read()
    assert before.keys() == calls.keys()
    found = [
        line
        for row in calls
        for line in kept.differences(row, before[row], kept.numbers(calls[row], allocations[row]))
    ]
    assert not found, "\n".join(["", *found])


def test_within_the_margin_nothing_is_said() -> None:
    before = {"calls": 100, "peak": 100_000, "blocks": 100}
    for now in (
        {"calls": 102, "peak": 105_000, "blocks": 105},
        {"calls": 98, "peak": 95_000, "blocks": 95},
    ):
        assert list(kept.differences("commit-1", before, now)) == []


def test_more_needs_a_reason_and_fewer_are_kept() -> None:
    before = {"calls": 100, "peak": 10_000, "down": 30}
    more, fewer, gone = kept.differences("commit-1", before, {"calls": 103, "peak": 9_199})
    assert more.startswith("commit-1: calls: 100 -> 103: more than before.")
    assert "CHANGELOG.md" in more
    assert fewer.startswith("commit-1: peak: 10000 -> 9199: fewer than before, well done: keep")
    assert gone.startswith("commit-1: down: 30 -> None: one of them is missing")


def test_calls_are_those_of_most_requests_and_layers_those_around_the_work() -> None:
    functions = [
        ("server/a.py", "read", True),
        ("core/b.py", "work", True),
        ("core/b.py", "part", True),
        ("lib/c.py", "helps", False),
        ("lib/c.py", "helped", False),
        ("server/a.py", "reply", True),
        ("server/outgoing.py", "Outgoing.write", True),
        ("runtime/d.py", "ring", True),
    ]
    usual = [(True, depth, at) for depth, at in enumerate((0, 1, 2, 3, 4))]
    usual += [(True, 1, 5), (True, 2, 6), (False, 9, 1)]
    trace = Trace(functions, {7: [[*usual, (True, 0, 7)], usual, usual]})
    calls = trace.usual(7, ("work", "work"))
    assert (calls.own, calls.others, calls.down, calls.up) == (6, 2, 1, 2)
    assert trace.usual(7, ("elsewhere", "elsewhere")).down is None
    assert tree(calls.all).splitlines() == [
        "read  [server/a.py]",
        "  work  [core/b.py]",
        "    part  [core/b.py]",
        "      \u00b7 helps (+1)  [lib/c.py]",
        "  reply  [server/a.py]",
        "    Outgoing.write  [server/outgoing.py]",
        "| work  [core/b.py]",
    ]


def test_a_table_shows_both_numbers_where_they_differ() -> None:
    assert kept.table({"join": ({"calls": 7}, {"calls": 8, "down": 3})}).split() == [
        *("calls", "down"),
        *("join", "7", "->", "8", "None", "->", "3"),
    ]


def test_a_call_is_shown_by_the_end_of_its_path() -> None:
    assert tree([Call("/x/server/a.py", "read", True, True, 4)]) == "read  [server/a.py]"
