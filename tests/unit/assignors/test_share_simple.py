"""The assignor `simple` of share groups: AS-57 to AS-59, and what must always hold
(docs/spec/assignors.md#8, #10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    SubscriptionType,
)
from groupd.coordinator.core.assignors.loader import load_share_assignor
from groupd.coordinator.core.assignors.share import SimpleAssignor
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.protocol.messages import TopicId
from tests.support.examples import examples

T1, T2 = b"1" * 16, b"2" * 16
EVERYTHING = frozenset({T1, T2})
HOMOGENEOUS, HETEROGENEOUS = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS

Members = Mapping[str, tuple[frozenset[TopicId], Assignment]]


def assign(
    counts: Mapping[TopicId, int],
    members: Members,
    kind: SubscriptionType = HOMOGENEOUS,
    assignable: Mapping[TopicId, frozenset[int]] | None = None,
) -> dict[str, Assignment]:
    specs = {name: MemberSpec(topics, prior) for name, (topics, prior) in members.items()}
    image = MetadataImage(TopicImage(one, one.decode(), count) for one, count in counts.items())
    spec = AssignmentSpec(specs, kind, assignable=assignable)
    return dict(SimpleAssignor().assign(spec, ImageDescriber(image)))


def alike(names: str, *topics: TopicId) -> Members:
    return {name: (frozenset(topics), {}) for name in names}


def test_as_57_partitions_and_members() -> None:
    assert assign({T1: 3}, alike("AB", T1)) == {"A": {T1: (0, 2)}, "B": {T1: (1,)}}
    shared = assign({T1: 2}, alike("ABCDE", T1))
    assert [len(held[T1]) for held in shared.values()] == [2, 1, 1, 1, 1]


def test_as_58_different_subscriptions() -> None:
    members = {**alike("ABC", T1), **alike("D")}
    held = assign({T1: 2}, members, HETEROGENEOUS)
    assert held == {"A": {T1: (0, 1)}, "B": {T1: (0,)}, "C": {T1: (1,)}, "D": {}}
    members = {**alike("A", T1), **alike("B", T2), **alike("C", T1, T2)}
    assert assign({T1: 4, T2: 4}, members, HETEROGENEOUS) == {
        "A": {T1: (0, 2)},
        "B": {T2: (0, 2)},
        "C": {T1: (1, 3), T2: (1, 3)},
    }


def test_as_59_a_new_member_gets_half() -> None:
    members = {"A": (frozenset({T1}), {T1: (0, 1, 2, 3)}), **alike("B", T1)}
    assert assign({T1: 4}, members) == {"A": {T1: (0, 1)}, "B": {T1: (2, 3)}}


def test_only_initialized_partitions_are_given() -> None:
    members = alike("AB", T1)
    assert assign({T1: 4}, members, assignable={T1: frozenset({3})}) == {
        "A": {T1: (3,)},
        "B": {T1: (3,)},
    }
    assert assign({T1: 4}, members, assignable={}) == {"A": {}, "B": {}}


def test_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(AssignorError, match="unknown topic"):
        assign({}, alike("A", T1))


def test_it_is_found_by_its_name() -> None:
    assert load_share_assignor(("simple",)).name == "simple"


def test_an_assignment_that_stays_is_the_same_object() -> None:
    prior: Assignment = {T1: (0, 1)}
    kept = assign({T1: 2}, {"A": (frozenset({T1}), prior)})
    assert kept["A"] is prior


topics = st.dictionaries(st.sampled_from([T1, T2]), st.integers(0, 8), min_size=2, max_size=2)
subscriptions = st.lists(st.frozensets(st.sampled_from([T1, T2])), min_size=1, max_size=9)


def holders(held: Mapping[str, Assignment]) -> Counter[tuple[TopicId, int]]:
    return Counter((topic, one) for its in held.values() for topic in its for one in its[topic])


@examples(200)
@given(topics, subscriptions, subscriptions)
def test_each_partition_has_a_member_and_not_too_many(
    counts: dict[TopicId, int],
    before: list[frozenset[TopicId]],
    after: list[frozenset[TopicId]],
) -> None:
    """Also after members have come, gone, and changed their subscriptions."""
    prior = assign(counts, {f"m{n}": (one, {}) for n, one in enumerate(before)}, HETEROGENEOUS)
    members = {f"m{n}": (one, prior.get(f"m{n}", {})) for n, one in enumerate(after)}
    held = assign(counts, members, HETEROGENEOUS)
    found = holders(held)
    for topic, count in counts.items():
        subscribers = sum(topic in one for one in after)
        sharing = -(-subscribers // count) if count else 0
        for number in range(count):
            assert (subscribers > 0) <= found[topic, number] <= sharing
    for name, its in held.items():
        assert its.keys() <= members[name][0]
    assert assign(counts, {n: (members[n][0], held[n]) for n in members}, HETEROGENEOUS) == held


@examples(200)
@given(topics, st.integers(1, 9), st.integers(1, 9))
def test_members_with_the_same_topics_have_equally_many(
    counts: dict[TopicId, int], before: int, after: int
) -> None:
    names = [f"m{number}" for number in range(9)]
    prior = assign(counts, {one: (EVERYTHING, {}) for one in names[:before]})
    members = {one: (EVERYTHING, prior.get(one, {})) for one in names[:after]}
    held = assign(counts, members)
    loads = [sum(map(len, its.values())) for its in held.values()]
    assert max(loads) - min(loads) <= 1
    assert len(holders(held)) == sum(counts.values()), "no partition is left out"
