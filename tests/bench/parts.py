"""The parts of the suite, by the letters that they have in its reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench import assignors, cluster, growth, recovery, share, stalls
from tests.bench.load import measure as load
from tests.bench.plan import Part
from tests.bench.security import measure as security_measure
from tests.bench.storm.workloads import measure as storm_measure


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the suite. `letters`: one for every kind of workload that it measures."""

    letters: str
    title: str
    measure: Part


PARTS: Sequence[Entry] = (
    Entry("a", "Steady heartbeats, consumer protocol", load.consumer_heartbeats),
    Entry("b", "Steady heartbeats, classic protocol", load.classic_heartbeats),
    Entry("c", "OffsetCommit", load.commits),
    Entry("d", "OffsetFetch", load.fetches),
    Entry("ef", "Join storms, and a member that leaves", storm_measure),
    Entry("gh", "Recovery, start-up, memory", recovery.measure),
    Entry("i", "Assignors", assignors.measure),
    Entry("s", "Stalls of the event loop", stalls.measure),
    Entry("j", "Growth", growth.measure),
    Entry("k", "Security", security_measure),
    Entry("n", "A cluster", cluster.measure),
    Entry("uv", "Share groups", share.measure),
)

TITLES = {part.letters: part.title for part in PARTS} | {"t": "A fresh broker for a test"}
"""The titles by the letters under which results are kept; (t) is `tests.bench.harness`."""


def chosen(letters: str) -> Iterator[Entry]:
    """The parts with one of these letters ("a,c"); all parts if there are none. Raises
    ValueError."""
    wanted = {letter for letter in letters.split(",") if letter}
    if unknown := wanted - {letter for part in PARTS for letter in part.letters}:
        raise ValueError(f"no part {', '.join(sorted(unknown))}")
    for part in PARTS:
        if not wanted or wanted & set(part.letters):
            yield part
