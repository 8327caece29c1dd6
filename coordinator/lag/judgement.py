"""Whether a group keeps up with one partition (docs/lag.md): Burrow's questions, asked of what each
round of `groupd.coordinator.lag.watch` has seen.

A partition takes a few numbers here, however long the window is. Pure: times are arguments.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

ROUNDS = 10
"""A judgement looks back over so many rounds."""

SILENCE_FACTOR = 2
"""Commits have stopped when they have been missing for so many times their usual distance."""

_GAP_SHARE = 0.75
"""The part of the usual distance between two commits that is left after a shorter one."""


class Judgement(Enum):
    """From good to bad; a group has the worst one of its partitions."""

    OK = "ok"
    BEHIND = "behind"
    REWOUND = "rewound"
    STALLED = "stalled"
    STOPPED = "stopped"


SEVERITY = {one: at for at, one in enumerate(Judgement)}


class Progress(Struct, gc=False):
    """What the rounds have seen of one partition of a group. Times are wall-clock ms; 0: never.

    `offset`, `lag` (records) and `commit_ms` are those of the last round. `since_ms`: the first
    round. `moved_ms`: the offset has stood where it is since then. `caught_up_ms`: the last round
    without lag. `eased_ms`: the last round in which the lag had become less. `rewound_ms`: the last
    round in which the offset had gone back. `gap_ms`: the usual distance of commits."""

    offset: int
    lag: int
    commit_ms: int
    since_ms: int
    moved_ms: int
    caught_up_ms: int = 0
    eased_ms: int = 0
    rewound_ms: int = 0
    gap_ms: float = 0.0

    def see(self, offset: int, lag: int, commit_ms: int, now_ms: int) -> None:
        """Take in what a round has found."""
        if offset != self.offset:
            if offset < self.offset:
                self.rewound_ms = now_ms
            self.moved_ms = now_ms
        if lag < self.lag:
            self.eased_ms = now_ms
        if lag == 0:
            self.caught_up_ms = now_ms
        if commit_ms != self.commit_ms and self.commit_ms:
            self.gap_ms = max(commit_ms - self.commit_ms, self.gap_ms * _GAP_SHARE)
        self.offset, self.lag, self.commit_ms = offset, lag, commit_ms

    def silent_ms(self, now_ms: int) -> int:
        """For how long nothing has been committed although records waited."""
        return max(0, now_ms - max(self.commit_ms, self.caught_up_ms))

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


def seen_first(offset: int, lag: int, commit_ms: int, now_ms: int) -> Progress:
    """The progress after the first round that finds a partition."""
    return Progress(offset, lag, commit_ms, now_ms, now_ms, now_ms if lag == 0 else 0)


def records_behind(committed: int | None, start: int, end: int) -> int:
    """The records of a log from `start` up to `end` that a group has not read; all of them if it
    has committed nothing."""
    return max(0, end - max(start, start if committed is None else committed))
