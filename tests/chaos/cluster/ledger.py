"""What was acknowledged to whom, and what must never be true of it.

Pure: it is fed from all sides (thread-safe) and judged at any time. Times are of the system's
monotonic clock in seconds, which all processes share.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tests.clients.group import Move, Partition

Key = tuple[str, str, int]
"""Group, topic, partition."""


class Commit(Struct, frozen=True):
    """A commit that was acknowledged. `token`: its metadata, which no other commit has; empty: it
    has none; `node`: who acknowledged it; `shard`: that of its group."""

    group: str
    topic: str
    partition: int
    offset: int
    sent: float
    answered: float
    token: str = ""
    node: int = 0
    shard: int = -1

    @property
    def key(self) -> Key:
        return self.group, self.topic, self.partition


class Logged(Struct, frozen=True):
    """A commit as the log of its shard has it: where, and whose the shard was when it was written
    (None: nobody's)."""

    shard: int
    position: int
    token: str
    owner: int | None
    epoch: int


class Ledger:
    """`faults`: everything that was found so far; empty if all is well."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.commits: list[Commit] = []
        """Those with a token."""
        self.fetches = 0
        self.newest: dict[Key, int] = {}
        """What OffsetFetch has answered last."""
        self._lock = threading.Lock()
        self._acknowledged: dict[Key, list[tuple[float, int]]] = defaultdict(list)
        """When which offset was acknowledged that is greater than all before."""
        self._late: dict[Key, list[tuple[float, int]]] = defaultdict(list)
        self._fetched: list[tuple[float, Key, int, str]] = []
        self._owners: dict[tuple[str, str, int, int], str] = {}

    # What is told -------------------------------------------------------------------------

    def acknowledged(self, commit: Commit) -> None:
        """A commit was acknowledged."""
        with self._lock:
            self._late[commit.key].append((commit.answered, commit.offset))
            if commit.token:
                self.commits.append(commit)

    def fetched(self, key: Key, offset: int, asked: float, whom: str = "") -> None:
        """OffsetFetch, sent at `asked`, has answered this."""
        with self._lock:
            self.fetches += 1
            self.newest[key] = offset
            self._fetched.append((asked, key, offset, whom))

    def owns(self, group: str, member: str, epoch: int, topic: str, parts: Iterable[int]) -> None:
        """A member was told that it has these partitions at this member epoch."""
        with self._lock:
            for part in parts:
                other = self._owners.setdefault((group, topic, part, epoch), member)
                if other != member:
                    self.faults.append(
                        f"{group}: {topic}-{part} at epoch {epoch} has two owners: {other} and "
                        f"{member}"
                    )

    # What is judged -----------------------------------------------------------------------

    def judge(self, until: float) -> None:
        """Judge what OffsetFetch has answered to what was asked before `until`: every commit that
        was acknowledged before that, or a later one, must be in it."""
        with self._lock:
            self._sort_in()
            waiting = []
            for asked, key, offset, whom in self._fetched:
                if asked >= until:
                    waiting.append((asked, key, offset, whom))
                    continue
                known = self._acknowledged.get(key, [])
                at = bisect_left(known, (asked, -1)) - 1
                if at >= 0 and offset < known[at][1]:
                    self.faults.append(
                        f"{key}: a commit of {known[at][1]} was acknowledged at {known[at][0]:.3f} "
                        f"and is lost: {whom} says {offset} at {asked:.3f}"
                    )
            self._fetched = waiting

    def _sort_in(self) -> None:
        for key, new in self._late.items():
            known = self._acknowledged[key]
            for one in new:
                _add(known, one)
        self._late.clear()

    def last(self) -> Mapping[Key, int]:
        """The greatest offset that was acknowledged, by partition."""
        with self._lock:
            self._sort_in()
            return {key: known[-1][1] for key, known in self._acknowledged.items() if known}


def _add(known: list[tuple[float, int]], new: tuple[float, int]) -> None:
    """Put an (answered, offset) in its place among those whose times and offsets both grow. Almost
    always that is the end: all of them must not be looked at each time."""
    at = bisect_left(known, new)
    if at and known[at - 1][1] >= new[1]:
        return
    end = at
    while end < len(known) and known[end][1] <= new[1]:
        end += 1
    known[at:end] = [new]


def wrong_in_log(commits: Sequence[Commit], logged: Sequence[Logged]) -> list[str]:
    """What is wrong with the logs: an acknowledged commit that is missing or twice there, one that
    another node than the owner has acknowledged, two owners of one epoch, epochs that go back,
    commits in another order than that of their acknowledgements."""
    faults: list[str] = []
    places: dict[str, Logged] = {}
    owners: dict[tuple[int, int], int | None] = {}
    last: dict[int, int] = {}
    for one in sorted(logged, key=lambda one: (one.shard, one.position)):
        if one.token in places:
            faults.append(f"commit {one.token} is twice in the log")
        if one.token:
            places[one.token] = one
        other = owners.setdefault((one.shard, one.epoch), one.owner)
        if other != one.owner or one.owner is None:
            faults.append(f"shard {one.shard} at epoch {one.epoch}: of {other} and of {one.owner}")
        if one.epoch < last.get(one.shard, 0):
            faults.append(f"shard {one.shard}: epoch {one.epoch} after {last[one.shard]}")
        last[one.shard] = one.epoch
    for commit in commits:
        place = places.get(commit.token)
        if place is None:
            faults.append(f"commit {commit.token} was acknowledged and is not in the log: {commit}")
        elif place.owner != commit.node:
            faults.append(
                f"commit {commit.token} was acknowledged by node {commit.node}, and written at "
                f"epoch {place.epoch} of node {place.owner}"
            )
    faults += _out_of_order([one for one in commits if one.token in places], places)
    return faults


def _out_of_order(commits: Sequence[Commit], places: Mapping[str, Logged]) -> list[str]:
    """Commits that were sent after others were acknowledged, and lie before them."""
    faults = []
    shards = {one.shard for one in commits}
    for shard in sorted(shards):
        its = [one for one in commits if one.shard == shard]
        answers = sorted(its, key=lambda one: one.answered)
        at, greatest = 0, None
        for one in sorted(its, key=lambda one: one.sent):
            while at < len(answers) and answers[at].answered < one.sent:
                place = places[answers[at].token]
                if greatest is None or place.position > greatest.position:
                    greatest = place
                at += 1
            if greatest is not None and places[one.token].position < greatest.position:
                faults.append(f"shard {shard}: {one.token} lies before {greatest.token}")
    return faults


def two_owners(moves: Sequence[Move]) -> list[str]:
    """Partitions that two members of a group had at one time, each in good faith: a member that is
    told that it has *lost* a partition had it at an older epoch than the next one."""
    faults = []
    held: dict[tuple[int, Partition], float] = {}
    spans: dict[Partition, list[tuple[float, float, int]]] = defaultdict(list)
    ordered = sorted(moves, key=lambda one: one.at)
    for move in ordered:
        for partition in move.partitions:
            if move.kind == "assigned":
                held[(move.member, partition)] = move.at
                continue
            since = held.pop((move.member, partition), None)
            if since is not None and move.kind == "revoked":
                spans[partition].append((since, move.at, move.member))
    end = ordered[-1].at if ordered else 0.0
    for (member, partition), since in held.items():
        spans[partition].append((since, end, member))
    for partition, its in spans.items():
        until, who = 0.0, -1
        for since, over, member in sorted(its):
            if since < until and member != who:
                faults.append(f"{partition}: of {who} until {until:.3f}, of {member} {since:.3f}")
            if over > until:
                until, who = over, member
    return faults
