"""The plan of a restore: what is written, what is left, and what cannot be."""

from __future__ import annotations

from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.history.restore import Action, Current, RestoreStep, TopicNow, plan

A, B = b"a" * 16, b"b" * 16
TOPICS = {"t": TopicNow(A, 3)}
BOUNDS = {("t", partition): (10, 100) for partition in range(3)}


def then(partition: int, offset: int, topic: str = "t", topic_id: bytes = A) -> CommittedOffset:
    return CommittedOffset(topic, partition, offset, 4, "m", 1, 7, topic_id)


def one(*steps: RestoreStep) -> RestoreStep:
    (step,) = steps
    return step


def test_moved_offsets_are_committed_and_unmoved_ones_kept() -> None:
    now = {("t", 0): Current(90, 4, "m"), ("t", 1): Current(20, 4, "m")}
    steps = plan([then(1, 20), then(0, 50)], now, TOPICS, BOUNDS)
    assert steps == [
        RestoreStep("t", 0, Action.COMMIT, 90, 50, 4, "m"),
        RestoreStep("t", 1, Action.KEEP, 20, 20, 4, "m"),
    ]


def test_metadata_and_leader_epoch_belong_to_an_offset() -> None:
    for now in (Current(20, 3, "m"), Current(20, 4, "other")):
        step = one(*plan([then(1, 20)], {("t", 1): now}, TOPICS, BOUNDS))
        assert (step.action, step.after, step.metadata) == (Action.COMMIT, 20, "m")


def test_what_is_gone_now_comes_back() -> None:
    step = one(*plan([then(1, 20)], {}, TOPICS, BOUNDS))
    assert (step.action, step.before, step.after) == (Action.COMMIT, None, 20)


def test_what_is_new_stays_unless_its_deletion_is_asked_for() -> None:
    now = {("t", 2): Current(5), ("u", 0): Current(6)}
    left = plan([], now, TOPICS, BOUNDS)
    assert [(s.action, s.before, s.after) for s in left] == [
        (Action.LEAVE, 5, 5),
        (Action.LEAVE, 6, 6),
    ]
    deleted = plan([], now, TOPICS, BOUNDS, delete_new=True)
    assert [(s.action, s.after) for s in deleted] == [(Action.DELETE, None)] * 2


def test_offsets_outside_of_the_partition_are_warned_of() -> None:
    assert "below the start" in one(*plan([then(0, 9)], {}, TOPICS, BOUNDS)).warning
    assert "beyond the end" in one(*plan([then(0, 101)], {}, TOPICS, BOUNDS)).warning
    assert one(*plan([then(0, 10)], {}, TOPICS, BOUNDS)).warning == ""
    assert one(*plan([then(0, 100)], {}, TOPICS, BOUNDS)).warning == ""
    assert "could not be asked" in one(*plan([then(0, 10)], {}, TOPICS, {})).warning


def test_topics_that_are_gone_or_made_anew_are_skipped() -> None:
    now = {("t", 0): Current(3)}
    for wanted, topics, said in [
        (then(0, 20), {}, "does not exist"),
        (then(0, 20, topic_id=B), TOPICS, "made anew"),
        (then(3, 20), TOPICS, "3 partitions only"),
    ]:
        step = plan([wanted], now, topics, BOUNDS)[-1]
        assert step.action is Action.SKIP
        assert said in step.warning
        assert step.before == step.after
    # Commits of old clients have no topic id.
    unnamed = one(*plan([then(0, 20, topic_id=bytes(16))], {}, TOPICS, BOUNDS))
    assert unnamed.action is Action.COMMIT
