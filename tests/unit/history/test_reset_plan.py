"""The plan of a reset: where offsets go, and what consumers will read again or skip."""

from __future__ import annotations

import pytest

from groupd.coordinator.history.reset_plan import (
    ResetAction,
    ResetStep,
    ResetTarget,
    WantedReset,
    plan_reset,
)

T0 = ("t", 0)
BOUNDS = {T0: (10, 100)}


def one(
    target: ResetTarget,
    amount: int = 0,
    committed: int | None = 40,
    bounds: dict[tuple[str, int], tuple[int, int]] | None = None,
    at_time: int | None = None,
) -> ResetStep:
    (step,) = plan_reset(
        WantedReset(target, amount),
        [T0],
        {} if committed is None else {T0: committed},
        BOUNDS if bounds is None else bounds,
        {} if at_time is None else {T0: at_time},
    )
    return step


@pytest.mark.parametrize(
    ("target", "amount", "after", "action", "records"),
    [
        (ResetTarget.EARLIEST, 0, 10, ResetAction.REWIND, 30),
        (ResetTarget.LATEST, 0, 100, ResetAction.FORWARD, 60),
        (ResetTarget.OFFSET, 40, 40, ResetAction.KEEP, 0),
        (ResetTarget.OFFSET, 41, 41, ResetAction.FORWARD, 1),
        (ResetTarget.SHIFT, -5, 35, ResetAction.REWIND, 5),
        (ResetTarget.SHIFT, 7, 47, ResetAction.FORWARD, 7),
    ],
)
def test_where_it_goes(
    target: ResetTarget, amount: int, after: int, action: ResetAction, records: int
) -> None:
    step = one(target, amount)
    assert (step.before, step.after, step.action, step.records) == (40, after, action, records)
    assert step.warning == ""


def test_a_time_is_the_first_record_then_or_the_end() -> None:
    assert one(ResetTarget.TIME, 5, at_time=20).after == 20
    assert one(ResetTarget.TIME, 5).after == 100


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
    step = one(target, amount)
    assert (step.after, step.warning) == (after, warning)


def test_only_records_that_the_partition_has_are_counted() -> None:
    assert one(ResetTarget.LATEST, committed=2).records == 90
    assert one(ResetTarget.EARLIEST, committed=700).records == 90


def test_nothing_was_committed_before() -> None:
    step = one(ResetTarget.EARLIEST, committed=None)
    assert (step.after, step.action, step.records) == (10, ResetAction.FIRST, None)
    assert step.is_write


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (one(ResetTarget.SHIFT, 5, committed=None), "nothing is committed that could be moved"),
        (
            one(ResetTarget.LATEST, bounds={}),
            "there is no such partition, or it could not be asked",
        ),
    ],
)
def test_what_cannot_be_moved_is_left(step: ResetStep, told: str) -> None:
    assert (step.action, step.before, step.warning) == (ResetAction.LEAVE, step.after, told)
    assert not step.is_write


def test_steps_are_in_order_and_each_place_comes_once() -> None:
    places = [("t", 1), ("a", 2), ("t", 0), ("t", 1)]
    steps = plan_reset(WantedReset(ResetTarget.LATEST), places, {}, {}, {})
    assert [step.place for step in steps] == [("a", 2), ("t", 0), ("t", 1)]
    assert steps[0].row() == {
        "topic": "a",
        "partition": 2,
        "from": None,
        "to": None,
        "action": "leave",
        "records": None,
        "warning": "there is no such partition, or it could not be asked",
    }
