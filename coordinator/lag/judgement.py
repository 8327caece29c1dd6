"""Whether a group keeps up with one partition (docs/lag.md): Burrow's questions, asked of what each
round of `groupd.coordinator.lag.watch` has seen.

A partition takes a few numbers here, however long the window is. Pure: times are arguments. They
are monotonic, so that a wall clock that is set back or forward changes no judgement; the only
wall-clock time is that of the last commit, as the log has it.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from groupd.coordinator.core.types import Instant

ROUNDS = 10
"""A judgement looks back over so many rounds."""

SILENCE_FACTOR = 2
"""Commits have stopped when they have been missing for so many times their usual distance."""

_GAP_SHARE = 0.75
"""The part of the usual distance between two commits that is left after a shorter one."""


NEVER = -(1 << 62)
"""A time before all others. Monotonic time begins near 0 on a machine that has just started."""


class Judgement(Enum):
    """From good to bad; a group has the worst one of its partitions."""

    OK = "ok"
    BEHIND = "behind"
    REWOUND = "rewound"
    STALLED = "stalled"
    STOPPED = "stopped"


SEVERITY = {one: at for at, one in enumerate(Judgement)}


class Progress(Struct, gc=False):
    """What the rounds have seen of one partition of a group. Times are monotonic ms, and those of
    rounds; `NEVER`: there was no such round.

    `offset`, `lag` (records) and `commit_ms` (wall-clock ms) are those of the last round.
    `since_ms`: the first round. `committed_ms`: the last round that found a new commit; before
    there was one, the time of the commit that the first round found (`monotonic_of`). `moved_ms`:
    the offset has stood where it is since then. `caught_up_ms`: the last round without lag.
    `eased_ms`: the last round in which the lag had become less. `rewound_ms`: the last round in
    which the offset had gone back. `gap_ms`: the usual distance of commits."""

    offset: int
    lag: int
    commit_ms: int
    since_ms: int
    committed_ms: int
    moved_ms: int
    caught_up_ms: int = NEVER
    eased_ms: int = NEVER
    rewound_ms: int = NEVER
    gap_ms: float = 0.0

    def see(self, offset: int, lag: int, commit_ms: int, now_ms: int) -> None:
        """Take in what a round has found. `now_ms`: monotonic."""
        if offset != self.offset:
            if offset < self.offset:
                self.rewound_ms = now_ms
            self.moved_ms = now_ms
        if lag < self.lag:
            self.eased_ms = now_ms
        if lag == 0:
            self.caught_up_ms = now_ms
        if commit_ms != self.commit_ms:
            # Before the first round the daemon may have been down, which is no usual distance.
            began_ms = max(self.committed_ms, self.since_ms)
            self.gap_ms = max(now_ms - began_ms, self.gap_ms * _GAP_SHARE)
            self.committed_ms = now_ms
        self.offset, self.lag, self.commit_ms = offset, lag, commit_ms

    def silent_ms(self, now_ms: int) -> int:
        """For how long nothing has been committed although records waited."""
        return max(0, now_ms - max(self.committed_ms, self.caught_up_ms))

    def judge(self, now_ms: int, window_ms: int) -> Judgement:
        """`window_ms`: how far back it looks."""
        since = now_ms - window_ms
        if self.rewound_ms > since:
            return Judgement.REWOUND
        if self.lag == 0 or self.caught_up_ms > since:
            return Judgement.OK
        if self.silent_ms(now_ms) >= max(window_ms, SILENCE_FACTOR * self.gap_ms):
            return Judgement.STOPPED
        if self.since_ms > since or self.eased_ms > since:
            return Judgement.OK
        return Judgement.BEHIND if self.moved_ms > since else Judgement.STALLED


def monotonic_of(wall_ms: int, now: Instant) -> int:
    """The monotonic time, in ms, of what a log says was at `wall_ms`: how long ago that was is only
    known by the wall clock. What lies in the future counts as now."""
    return now.monotonic_ms - max(0, now.wall_ms - wall_ms)


def records_behind(committed: int, start: int, end: int) -> int:
    """The records of a log from `start` up to `end` that a group has not read. It must have
    committed something: where else it reads is not known."""
    return max(0, end - max(start, committed))
