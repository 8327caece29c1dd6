"""What is accepted from an assignor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.assignors.api import AssignorError, MemberSpec, SubscriptionType
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.consumer_group import target_assignment
from groupd.coordinator.core.consumer_group.target_assignment import check_steps
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.slices import run_through
from groupd.protocol.messages import TopicId
from tests.support.examples import examples

ALPHA, BETA, GAMMA = (bytes([number]) * 16 for number in range(3))
TOPICS = ImageDescriber(
    MetadataImage(
        [TopicImage(ALPHA, "alpha", 4), TopicImage(BETA, "beta", 4), TopicImage(GAMMA, "gamma", 2)]
    )
)

topic_sets = st.lists(
    st.sampled_from([ALPHA, BETA, GAMMA]), min_size=1, max_size=3, unique=True
).map(sorted)
numbers = st.lists(st.integers(-1, 4), max_size=2)
targets = st.dictionaries(st.sampled_from([GAMMA, ALPHA, BETA]), numbers.map(tuple), max_size=3)
subscriptions = st.one_of(
    st.just(frozenset([ALPHA, BETA, GAMMA])), topic_sets.map(frozenset[TopicId])
)
groups = st.lists(st.tuples(subscriptions, targets), min_size=1, max_size=4)


def spec_of(members: dict[str, MemberSpec]) -> AssignmentSpec:
    return AssignmentSpec(members, SubscriptionType.HETEROGENEOUS)


def checked(result: Any, spec: AssignmentSpec, topics: ImageDescriber) -> Any:
    return run_through(check_steps(result, spec, topics))


def is_right(members: dict[str, MemberSpec], result: dict[str, Any]) -> bool:
    """The rules, in the plainest form."""
    places = [
        (topic_id, number)
        for target in result.values()
        for topic_id, its in dict(target).items()
        for number in its
    ]
    return (
        len(places) == len(set(places))
        and all(0 <= number < TOPICS.num_partitions(topic_id) for topic_id, number in places)
        and all(
            topic_id in members[key].topic_ids
            for key, target in result.items()
            for topic_id, its in dict(target).items()
            if its
        )
    )


@examples(400)
@given(groups, st.booleans())
def test_what_is_accepted_is_right_and_nothing_else(
    group: list[tuple[frozenset[TopicId], Any]], kept: bool
) -> None:
    result = {f"m{index}": target for index, (_, target) in enumerate(group)}
    plainly = {
        key: {
            topic: tuple(sorted(dict(target)[topic])) for topic in sorted(target) if target[topic]
        }
        for key, target in result.items()
    }
    if kept:
        # What a member has already is checked like anything else.
        result = dict(plainly)
    members = {
        f"m{index}": MemberSpec(topic_ids, result[f"m{index}"] if kept else {})
        for index, (topic_ids, _) in enumerate(group)
    }
    if is_right(members, result):
        accepted = checked(result, spec_of(members), TOPICS)
        assert accepted == plainly
        assert all(list(target) == sorted(target) for target in accepted.values())
    else:
        with pytest.raises(AssignorError, match=r"^m\d got "):
            checked(result, spec_of(members), TOPICS)


EVERYTHING = frozenset([ALPHA, BETA, GAMMA])


def test_a_partition_that_is_given_to_two_members_is_named_with_the_second() -> None:
    members = {key: MemberSpec(EVERYTHING, {}) for key in ("m0", "m1")}
    result = {"m0": {ALPHA: (1, 2), BETA: (1, 2)}, "m1": {BETA: (2,)}}
    with pytest.raises(AssignorError, match="m1 got a partition of beta that is handed out twice"):
        checked(result, spec_of(members), TOPICS)


@pytest.mark.parametrize("wrong", [("1",), (True,), (1.0,), ([1],)])
def test_only_whole_numbers_are_partitions(wrong: Any) -> None:
    members = {"m0": MemberSpec(EVERYTHING, {})}
    with pytest.raises(AssignorError, match="something that is no partition number of alpha"):
        checked({"m0": {ALPHA: wrong}}, spec_of(members), TOPICS)


def test_a_fault_of_the_last_member_is_found_after_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "SLICE_MEMBERS", 2)
    members = {f"m{number}": MemberSpec(EVERYTHING, {}) for number in range(5)}
    result: dict[str, Any] = {f"m{number}": {ALPHA: (number,)} for number in range(4)}
    result["m4"] = {ALPHA: (0,)}
    steps = check_steps(result, spec_of(members), TOPICS)
    next(steps)
    next(steps)
    with pytest.raises(AssignorError, match="m4 got a partition of alpha that is handed out twice"):
        next(steps)


def test_members_with_many_partitions_are_looked_at_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_assignment, "SLICE_PARTITIONS", 2)
    members = {f"m{number}": MemberSpec(EVERYTHING, {}) for number in range(4)}
    result: dict[str, Any] = {f"m{number}": {ALPHA: (number,)} for number in range(4)}
    assert sum(1 for _ in check_steps(result, spec_of(members), TOPICS)) == 2
