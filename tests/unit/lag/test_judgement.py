"""What a partition of a group is judged to be, from what the rounds have seen."""

from __future__ import annotations

from groupd.coordinator.core.types import Instant
from groupd.coordinator.lag.judgement import (
    SEVERITY,
    Judgement,
    Progress,
    monotonic_of,
    records_behind,
)

ROUND = 10_000
WINDOW = 10 * ROUND
START = 10_000
"""A machine that was started ten seconds ago."""
WALL = 1_800_000_000_000

Seen = tuple[int, int, bool]
"""Committed offset, lag, and whether something was committed since the round before."""


def seen_first(offset: int, lag: int, commit_ms: int, now_ms: int) -> Progress:
    """The progress after the first round that finds a partition."""
    committed_ms = monotonic_of(commit_ms, Instant(now_ms, WALL + now_ms))
    progress = Progress(offset, lag, commit_ms, now_ms, committed_ms, now_ms)
    progress.see(offset, lag, commit_ms, now_ms)
    return progress


def after(*rounds: Seen) -> tuple[Progress, int]:
    """The progress after these rounds, and the time of the last one."""
    now, commit = START, WALL + START
    offset, lag, _ = rounds[0]
    progress = seen_first(offset, lag, commit, now)
    for offset, lag, committed in rounds[1:]:
        now += ROUND
        commit = WALL + now - 1 if committed else commit
        progress.see(offset, lag, commit, now)
    return progress, now


def judge(progress: Progress, now: int, *, is_silent: bool = False) -> Judgement | None:
    return progress.judge(now, WINDOW, is_silent=is_silent)


def judged(*rounds: Seen, owner: str | None = None) -> Judgement | None:
    """`owner`: who has the partition."""
    progress, now = after(*rounds)
    progress.belongs_to(owner, now)
    return judge(progress, now)


def test_a_group_that_was_at_the_end_within_the_window_is_ok() -> None:
    assert judged((5, 0, True)) is Judgement.OK
    assert judged((5, 0, True), *[(5, 10 * at, False) for at in range(1, 10)]) is Judgement.OK


def test_a_downtime_is_no_usual_distance_of_commits() -> None:
    now = START + 3_600_000
    progress = seen_first(5, 10, WALL + START, now)
    for at in range(1, 4):
        now += ROUND
        progress.see(5 + at, 10, WALL + now, now)
    progress.see(8, 20, WALL + now, now + WINDOW)
    assert judge(progress, now + WINDOW) is Judgement.STOPPED


def test_lag_that_was_seen_once_is_not_judged() -> None:
    assert judged((5, 10, True)) is None
    assert judged((5, 10, True), (5, 10, False)) is Judgement.OK
    assert judged((5, 0, True)) is Judgement.OK, "nothing waits"


def test_it_is_ok_before_a_whole_window_was_seen() -> None:
    assert judged(*[(5, 10 + at, True) for at in range(2, 10)]) is Judgement.OK


def test_behind_it_commits_and_moves_but_the_lag_never_becomes_less() -> None:
    rounds = [(5 + at, 10 + at, True) for at in range(12)]
    assert judged(*rounds) is Judgement.BEHIND
    assert judged(*rounds, (30, 9, True)) is Judgement.OK  # it catches up


def test_stalled_it_commits_the_same_offset_again_and_again() -> None:
    assert judged(*[(5, 10 + at, True) for at in range(12)]) is Judgement.STALLED


def test_stopped_it_commits_nothing_although_records_wait() -> None:
    rounds: list[Seen] = [(5, 10, True), *[(5, 10 + at, False) for at in range(11)]]
    assert judged(*rounds) is Judgement.STOPPED
    assert judged(*rounds, owner="a") is Judgement.STALLED, "somebody has it, and should read"


def test_records_that_wait_for_a_silent_member_are_stalled_whatever_else_was_seen() -> None:
    rounds: list[list[Seen]] = [
        [(50, 0, True), (50, 7, False)],
        [(50, 0, True), (10, 40, True)],
        [(5 + at, 10 - at, True) for at in range(9)],
    ]
    for one in rounds:
        progress, now = after(*one)
        assert judge(progress, now, is_silent=True) is Judgement.STALLED
    progress, now = after((50, 7, True), (57, 0, True))
    assert judge(progress, now, is_silent=True) is Judgement.OK, "nothing waits here"


def test_the_worst_is_stalled_and_what_is_not_known_is_worse_than_ok() -> None:
    assert [one.value if one else one for one in sorted(SEVERITY, key=SEVERITY.__getitem__)] == [
        "ok", None, "behind", "rewound", "stopped", "stalled",
    ]  # fmt: skip


def test_who_gets_a_partition_has_time_of_its_own() -> None:
    progress, now = after((5, 10, True), *[(5, 10, False)] * 5)
    progress.belongs_to("a", now)
    assert progress.silent_ms(now) == 5 * ROUND, "it may have had it for as long as anybody looked"
    progress.belongs_to("b", now)
    assert progress.silent_ms(now + 3) == 3
    progress.belongs_to(None, now + 7)
    assert progress.silent_ms(now + 9) == 2


def test_stopped_is_known_after_two_rounds_from_the_time_of_the_last_commit() -> None:
    old = seen_first(5, 10, WALL + START - 2 * WINDOW, START)
    assert old.silent_ms(START) == 2 * WINDOW
    assert judge(old, START) is None
    old.belongs_to(None, START)
    old.see(5, 10, old.commit_ms, START + ROUND)
    assert judge(old, START + ROUND) is Judgement.STOPPED
    ahead = seen_first(5, 10, WALL + START + 2 * WINDOW, START)  # the wall clock was set back since
    assert ahead.silent_ms(START) == 0


def test_what_has_never_been_is_not_within_the_window_of_a_machine_that_has_just_started() -> None:
    young = seen_first(5, 10, WALL, START)
    young.see(5, 10, young.commit_ms, START + ROUND)
    assert judge(young, START + ROUND) is Judgement.OK


def test_silence_counts_from_when_records_began_to_wait() -> None:
    idle: list[Seen] = [(5, 0, True), *[(5, 0, False) for _ in range(50)]]
    assert judged(*idle, *[(5, 1, False) for _ in range(9)]) is Judgement.OK
    assert judged(*idle, *[(5, 1, False) for _ in range(10)]) is Judgement.STOPPED


def test_a_group_that_commits_seldom_may_be_silent_for_longer() -> None:
    every_fifteen: list[Seen] = [
        (5 + at // 15, 100 - at // 15, at % 15 == 0) for at in range(15 * 3 + 13)
    ]
    assert judged(*every_fifteen) is Judgement.OK
    assert judged(*every_fifteen, *[(8, 98, False)] * 20) is Judgement.STOPPED


def test_rewound_for_as_long_as_the_window_is() -> None:
    rounds: list[Seen] = [(50, 0, True), (10, 40, True)]
    assert judged(*rounds) is Judgement.REWOUND
    assert judged(*rounds, *[(10 + at, 40 - at, True) for at in range(1, 10)]) is Judgement.REWOUND
    assert judged(*rounds, *[(10 + at, 40 - at, True) for at in range(1, 11)]) is Judgement.OK


def test_lag_in_records() -> None:
    assert records_behind(7, 0, 10) == 3
    assert records_behind(2, 4, 10) == 6  # what is deleted cannot be read any more
    assert records_behind(12, 0, 10) == 0  # beyond the end, after a loss
