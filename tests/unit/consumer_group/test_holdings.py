"""Maps of partitions in little memory behave as the dictionaries that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupd.coordinator.core.assignors.even import EvenAssignment
from groupd.coordinator.core.consumer_group import partition_epochs as epochs_module
from groupd.coordinator.core.consumer_group.errors import ReplayError
from groupd.coordinator.core.consumer_group.holdings import (
    EvenHoldings,
    even_holdings,
    partitions_by_topic,
)
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.partition_epochs import PartitionEpochMap
from groupd.coordinator.core.consumer_group.records import (
    current_member,
    partition_epochs,
    target_member,
    target_of,
)
from groupd.protocol.records.schema import AssignedTopic, ConsumerGroupTargetMemberValue, OwnedTopic

FOO, BAR, QUX = b"f" * 16, b"b" * 16, b"q" * 16

ARRAY_MAX = 16
numbers = st.one_of(st.integers(0, ARRAY_MAX + 2), st.sampled_from([2**31 - 1, -1]))
owned = st.dictionaries(numbers, st.integers(0, 3), min_size=1, max_size=6)


@pytest.fixture(scope="module", autouse=True)
def small_arrays() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs_module, "ARRAY_MAX", ARRAY_MAX)
        yield


def small(epochs: dict[int, int], topics: tuple[bytes, ...] = (FOO,)) -> EvenHoldings:
    ordered = sorted(epochs)
    made = even_holdings(topics, tuple(ordered), tuple(epochs[number] for number in ordered), {})
    assert isinstance(made, EvenHoldings)
    return made


@pytest.mark.parametrize("topics", [(FOO,), (BAR, FOO)])
@settings(deadline=None)
@given(owned, owned, st.booleans())
def test_even_holdings_read_as_dictionaries_do(
    topics: tuple[bytes, ...], epochs: dict[int, int], others: dict[int, int], alike: bool
) -> None:
    if alike:
        epochs = dict.fromkeys(epochs, 7)
    plain, made = dict.fromkeys(topics, epochs), small(epochs, topics)

    assert made == plain
    assert plain == made
    assert made == small(dict(epochs), topics)
    assert made != small(epochs, (BAR,))
    assert (made == small(others, topics)) == (epochs == others)
    assert len(made) == len(topics)
    assert list(made) == list(topics)
    assert {topic: dict(its) for topic, its in made.items()} == plain
    assert [(topic, list(its)) for topic, its in partitions_by_topic(made)] == [
        (topic, sorted(epochs)) for topic in topics
    ]
    assert (FOO in made, QUX in made, made.get(QUX)) == (True, False, None)
    of_topic = made[FOO]
    assert dict(of_topic.items()) == epochs == {**of_topic}
    assert (list(of_topic), len(of_topic)) == (sorted(epochs), len(epochs))
    for number in (*epochs, *others, 5):
        assert of_topic.get(number) == epochs.get(number)
        assert (number in of_topic) == (number in epochs)
    ordered = {number: epochs[number] for number in sorted(epochs)}
    assert repr(made) == repr(dict.fromkeys(topics, ordered))


of_topics = st.dictionaries(
    st.sampled_from([BAR, FOO, QUX]), st.lists(st.integers(0, 3), max_size=3), max_size=3
)


@settings(deadline=None)
@given(of_topics, st.booleans())
def test_what_a_record_says_is_what_the_member_holds(
    said: dict[bytes, list[int]], since: bool
) -> None:
    topics = [
        OwnedTopic(topic, tuple(its), tuple(number % 2 for number in its) if since else None)
        for topic, its in said.items()
    ]
    assert partition_epochs(tuple(topics), 4, {}) == {
        topic: {number: number % 2 if since else 4 for number in its}
        for topic, its in said.items()
        if its
    }


targets = st.dictionaries(
    st.sampled_from([FOO, BAR]), st.lists(st.integers(0, 5), max_size=3).map(tuple)
)


def stored(target: dict[bytes, tuple[int, ...]]) -> Mapping[bytes, tuple[int, ...]]:
    topics = (AssignedTopic(topic, partitions) for topic, partitions in target.items())
    return target_of(ConsumerGroupTargetMemberValue(tuple(topics)))


@given(targets, targets)
def test_targets_read_as_dictionaries_do(
    target: dict[bytes, tuple[int, ...]], other: dict[bytes, tuple[int, ...]]
) -> None:
    made = stored(target)
    plain = {topic: partitions for topic, partitions in target.items() if partitions}

    assert made == plain
    assert plain == made
    assert (made != plain) is False
    assert made == made == stored(target)
    assert (made == stored(other)) == (plain == {topic: its for topic, its in other.items() if its})
    assert dict(made) == {**made} == plain
    assert list(made) == list(made.keys()) == list(plain)
    assert list(made.items()) == list(plain.items())
    assert (len(made), bool(made), repr(made)) == (len(plain), bool(plain), repr(plain))
    for topic in (FOO, BAR):
        assert (topic in made, made.get(topic)) == (topic in plain, plain.get(topic))
    assert target_member("g", "m", made) == target_member("g", "m", plain)


@pytest.mark.parametrize("topics", [(FOO,), (BAR, FOO)])
def test_a_target_of_the_same_partitions_everywhere_is_no_dictionary(
    topics: tuple[bytes, ...],
) -> None:
    made, other = (stored(dict.fromkeys(topics, numbers)) for numbers in ((1, 2), (3,)))
    assert isinstance(made, EvenAssignment)
    assert isinstance(other, EvenAssignment)
    assert made.topics is other.topics
    assert made[FOO] == (1, 2)
    with pytest.raises(KeyError):
        made[b"?" * 16]


def test_a_target_whose_topics_do_not_ascend_stays_as_it_is() -> None:
    made = stored({FOO: (1, 2), BAR: (1, 2)})
    assert (type(made), list(made)) == (dict, [FOO, BAR])


@pytest.mark.parametrize("others", [(), (1,), (300, 301)])
def test_partitions_that_are_as_in_the_target_stand_in_memory_once(others: tuple[int, ...]) -> None:
    # Two tuples: constants of a function would be one.
    wanted, said = (tuple(range(300, 302)) for _ in range(2))
    target = {BAR: others, FOO: wanted}
    topics = [OwnedTopic(BAR, others)] if others else []
    held = partition_epochs((*topics, OwnedTopic(FOO, said)), 2, target)
    within = iter(held[FOO]).__reduce__()[1][0]
    assert within == wanted
    assert within is wanted or within is others


def test_a_log_may_have_partitions_in_any_order() -> None:
    topics = (OwnedTopic(FOO, (3, 1, 3), (5, 6, 7)),)
    assert partition_epochs(topics, 9, {}) == {FOO: {3: 7, 1: 6}}
    assert partition_epochs((OwnedTopic(FOO, (3, 1)),), 9, {}) == {FOO: {3: 9, 1: 9}}


def test_the_record_of_a_member_is_the_same_in_either_form() -> None:
    epochs = {4: 1, 2: 3, 9: 1}
    records = [
        current_member("g", ConsumerGroupMember("m", 3, 2, assigned=assigned))
        for assigned in ({FOO: epochs}, small(epochs))
    ]
    assert records[0] == records[1]


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


@settings(deadline=None)
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
