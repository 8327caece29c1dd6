"""The plans of a reset and of a restore: where offsets go, what consumers will read again or skip,
what is left, and what cannot be moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from groupd.coordinator.core.slices import run_through
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.moves.plan import (
    Current,
    MoveAction,
    MoveStep,
    Ranges,
    ResetTarget,
    TopicNow,
    WantedReset,
    plan_reset,
    plan_restore,
)

T0 = ("t", 0)
RANGES = {T0: (10, 100)}


def reset_step(
    target: ResetTarget,
    amount: int = 0,
    committed: int | None = 40,
    bounds: dict[tuple[str, int], tuple[int, int]] | None = None,
    found: int | None = None,
    again: bool = False,
) -> MoveStep:
    plan = plan_reset(
        WantedReset(target, amount, "other"),
        [T0],
        {} if committed is None else {T0: Current(committed)},
        RANGES if bounds is None else bounds,
        {} if found is None else {T0: found},
        again=again,
    )
    (step,) = run_through(plan)
    return step


@pytest.mark.parametrize(
    ("target", "amount", "after", "action", "records"),
    [
        (ResetTarget.EARLIEST, 0, 10, MoveAction.REWIND, 30),
        (ResetTarget.LATEST, 0, 100, MoveAction.FORWARD, 60),
        (ResetTarget.OFFSET, 40, 40, MoveAction.KEEP, 0),
        (ResetTarget.OFFSET, 41, 41, MoveAction.FORWARD, 1),
        (ResetTarget.SHIFT, -5, 35, MoveAction.REWIND, 5),
        (ResetTarget.SHIFT, 7, 47, MoveAction.FORWARD, 7),
    ],
)
def test_where_it_goes(
    target: ResetTarget, amount: int, after: int, action: MoveAction, records: int
) -> None:
    step = reset_step(target, amount)
    assert (step.before, step.after, step.action, step.records) == (40, after, action, records)
    assert step.warning == ""


def test_a_time_is_the_first_record_then_or_the_end() -> None:
    assert reset_step(ResetTarget.TIME, 5, found=20).after == 20
    assert reset_step(ResetTarget.TIME, 5).after == 100


def test_to_where_another_group_is() -> None:
    assert reset_step(ResetTarget.GROUP, found=0).after == 10, "what the partition still has"
    step = reset_step(ResetTarget.GROUP, found=70)
    assert (step.action, step.after, step.records) == (MoveAction.FORWARD, 70, 30)


def test_a_share_group_gets_the_same_offset_again() -> None:
    step = reset_step(ResetTarget.OFFSET, 40, again=True)
    assert (step.action, step.is_write, step.records) == (MoveAction.AGAIN, True, None)
    assert reset_step(ResetTarget.OFFSET, 39, again=True).action is MoveAction.REWIND


@pytest.mark.parametrize(
    ("target", "amount", "after", "warning"),
    [
        (ResetTarget.OFFSET, 5, 10, "5 is below the start of the partition: 10 instead"),
        (ResetTarget.OFFSET, 500, 100, "500 is beyond the end of the partition: 100 instead"),
        (ResetTarget.SHIFT, -1000, 10, "-960 is below the start of the partition: 10 instead"),
    ],
)
def test_what_the_partition_does_not_have_becomes_the_nearest(
    target: ResetTarget, amount: int, after: int, warning: str
) -> None:
    step = reset_step(target, amount)
    assert (step.after, step.warning) == (after, warning)


def test_only_records_that_the_partition_has_are_counted() -> None:
    assert reset_step(ResetTarget.LATEST, committed=2).records == 90
    assert reset_step(ResetTarget.EARLIEST, committed=700).records == 90


def test_nothing_was_committed_before() -> None:
    step = reset_step(ResetTarget.EARLIEST, committed=None)
    assert (step.after, step.action, step.records) == (10, MoveAction.FIRST, None)
    assert step.is_write


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (
            reset_step(ResetTarget.SHIFT, 5, committed=None),
            "nothing is committed that could be moved",
        ),
        (
            reset_step(ResetTarget.GROUP),
            "group other has no offset there",
        ),
        (
            reset_step(ResetTarget.LATEST, bounds={}),
            "there is no such partition, or it could not be asked",
        ),
    ],
)
def test_what_cannot_be_moved_is_left(step: MoveStep, told: str) -> None:
    assert (step.action, step.before, step.warning) == (MoveAction.LEAVE, step.after, told)
    assert not step.is_write


# Restore -------------------------------------------------------------------------------------

A, B = b"a" * 16, b"b" * 16
TOPICS = {"t": TopicNow(A, 3)}
ALL_RANGES = {("t", partition): (10, 100) for partition in range(3)}


def then(partition: int, offset: int, topic: str = "t", topic_id: bytes = A) -> CommittedOffset:
    return CommittedOffset(topic, partition, offset, 4, "m", 1, 7, topic_id)


def restored(
    then: Sequence[CommittedOffset],
    now: Mapping[tuple[str, int], Current],
    topics: Mapping[str, TopicNow],
    ranges: Ranges,
    *,
    delete_new: bool = False,
) -> list[MoveStep]:
    return run_through(plan_restore(then, now, topics, ranges, delete_new=delete_new))


def one(*steps: MoveStep) -> MoveStep:
    (step,) = steps
    return step


def test_moved_offsets_are_committed_and_unmoved_ones_kept() -> None:
    now = {("t", 0): Current(90, 4, "m"), ("t", 1): Current(20, 4, "m")}
    steps = restored([then(1, 20), then(0, 50)], now, TOPICS, ALL_RANGES)
    assert steps == [
        MoveStep("t", 0, MoveAction.COMMIT, 90, 50, 4, "m", 40),
        MoveStep("t", 1, MoveAction.KEEP, 20, 20, 4, "m", 0),
    ]


def test_metadata_and_leader_epoch_belong_to_an_offset() -> None:
    for now in (Current(20, 3, "m"), Current(20, 4, "other")):
        step = one(*restored([then(1, 20)], {("t", 1): now}, TOPICS, ALL_RANGES))
        assert (step.action, step.after, step.metadata) == (MoveAction.COMMIT, 20, "m")


def test_what_is_gone_now_comes_back() -> None:
    step = one(*restored([then(1, 20)], {}, TOPICS, ALL_RANGES))
    assert (step.action, step.before, step.after) == (MoveAction.COMMIT, None, 20)


def test_what_is_new_stays_unless_its_deletion_is_asked_for() -> None:
    now = {("t", 2): Current(5), ("u", 0): Current(6)}
    left = restored([], now, TOPICS, ALL_RANGES)
    assert [(s.action, s.before, s.after) for s in left] == [
        (MoveAction.LEAVE, 5, 5),
        (MoveAction.LEAVE, 6, 6),
    ]
    deleted = restored([], now, TOPICS, ALL_RANGES, delete_new=True)
    assert [(s.action, s.after) for s in deleted] == [(MoveAction.DELETE, None)] * 2


def test_offsets_outside_of_the_partition_are_warned_of() -> None:
    assert "below the start" in one(*restored([then(0, 9)], {}, TOPICS, ALL_RANGES)).warning
    assert "beyond the end" in one(*restored([then(0, 101)], {}, TOPICS, ALL_RANGES)).warning
    assert one(*restored([then(0, 10)], {}, TOPICS, ALL_RANGES)).warning == ""
    assert one(*restored([then(0, 100)], {}, TOPICS, ALL_RANGES)).warning == ""
    assert "could not be asked" in one(*restored([then(0, 10)], {}, TOPICS, {})).warning


def test_topics_that_are_gone_or_made_anew_are_skipped() -> None:
    now = {("t", 0): Current(3)}
    for wanted, topics, said in [
        (then(0, 20), {}, "does not exist"),
        (then(0, 20, topic_id=B), TOPICS, "made anew"),
        (then(3, 20), TOPICS, "3 partitions only"),
    ]:
        step = restored([wanted], now, topics, ALL_RANGES)[-1]
        assert step.action is MoveAction.SKIP
        assert said in step.warning
        assert step.before == step.after
    # Commits of old clients have no topic id.
    unnamed = one(*restored([then(0, 20, topic_id=bytes(16))], {}, TOPICS, ALL_RANGES))
    assert unnamed.action is MoveAction.COMMIT
