"""The partitions that members hold: as records tell them, and which epoch holds each one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.consumer_group import partition_epochs as epochs_module
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.partition_epochs import PartitionEpochMap
from groupd.coordinator.core.consumer_group.records import partition_epochs, target_of
from groupd.coordinator.core.errors import ReplayError
from groupd.protocol.records.schema import AssignedTopic, ConsumerGroupTargetMemberValue, OwnedTopic

FOO, BAR, QUX = b"f" * 16, b"b" * 16, b"q" * 16

ARRAY_MAX = 16
numbers = st.one_of(st.integers(0, ARRAY_MAX + 2), st.sampled_from([2**31 - 1, -1]))


@pytest.fixture(scope="module", autouse=True)
def small_arrays() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs_module, "ARRAY_MAX", ARRAY_MAX)
        yield


of_topics = st.dictionaries(
    st.sampled_from([BAR, FOO, QUX]), st.lists(st.integers(0, 3), max_size=3), max_size=3
)


@given(of_topics, st.booleans())
def test_what_a_record_says_is_what_the_member_holds(
    said: dict[bytes, list[int]], since: bool
) -> None:
    topics = [
        OwnedTopic(topic, tuple(its), tuple(number % 2 for number in its) if since else None)
        for topic, its in said.items()
    ]
    assert partition_epochs(tuple(topics), 4) == {
        topic: {number: number % 2 if since else 4 for number in its}
        for topic, its in said.items()
        if its
    }


def test_topics_without_partitions_are_left_out_of_a_target() -> None:
    value = ConsumerGroupTargetMemberValue((AssignedTopic(FOO, (1, 2)), AssignedTopic(BAR, ())))
    assert target_of(value) == {FOO: (1, 2)}


def test_a_log_may_have_partitions_in_any_order() -> None:
    topics = (OwnedTopic(FOO, (3, 1, 3), (5, 6, 7)),)
    assert partition_epochs(topics, 9) == {FOO: {3: 7, 1: 6}}
    assert partition_epochs((OwnedTopic(FOO, (3, 1)),), 9) == {FOO: {3: 9, 1: 9}}


class _Reference:
    """Which epoch holds a partition, in one dictionary."""

    def __init__(self) -> None:
        self.epochs: dict[tuple[bytes, int], int] = {}

    def replace(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        for place in _places(old):
            if old is not None and self.epochs.get(place) == old.member_epoch:
                del self.epochs[place]
        for place in _places(new):
            assert new is not None
            if self.epochs.get(place, -3) >= new.member_epoch:
                raise ReplayError(str(place))
            self.epochs[place] = new.member_epoch


def _places(member: ConsumerGroupMember | None) -> list[tuple[bytes, int]]:
    if member is None:
        return []
    return [
        (topic, number)
        for holdings in (member.assigned, member.pending_revocation)
        for topic, held in holdings.items()
        for number in held
    ]


holdings = st.dictionaries(
    st.sampled_from([FOO, BAR]), st.dictionaries(numbers, st.just(1), min_size=1), max_size=2
)
steps = st.lists(
    st.tuples(st.integers(0, 2), st.none() | st.tuples(st.sampled_from([-2, 1, 2, 3]), holdings)),
    max_size=12,
)


@given(steps)
def test_the_epochs_of_partitions_are_those_of_a_dictionary(
    moves: list[tuple[int, tuple[int, dict[bytes, dict[int, int]]] | None]],
) -> None:
    found, reference = PartitionEpochMap(), _Reference()
    members: dict[int, ConsumerGroupMember | None] = {}
    for index, form in moves:
        old = members.get(index)
        new = None
        if form is not None:
            new = ConsumerGroupMember(f"m{index}", form[0], assigned=form[1])
        refused = []
        for one in (found, reference):
            try:
                one.replace(old, new)
                refused.append(False)
            except ReplayError:
                refused.append(True)
        assert refused[0] == refused[1]
        if refused[0]:
            return  # the shard has failed
        members[index] = new
        held = {
            (topic, number): epoch for topic, its in found.items() for number, epoch in its.items()
        }
        assert held == reference.epochs
        assert all(its for _, its in found.items())
        for topic, number in reference.epochs:
            assert found.get(topic, number) == reference.epochs[topic, number]
        assert found.get(FOO, 77) == -1
