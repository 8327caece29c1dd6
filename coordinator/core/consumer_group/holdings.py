"""What a member holds, in little memory: topic id -> partition -> assignment epoch, read-only. And
what it is to hold, its target: topic id -> partitions.

Nearly every member holds partitions of one topic, and nearly always all since the same epoch. A
dictionary for each topic and one around them would be most of what a member takes. Here the
partition numbers are the tuple that the member's target has too, and equal epochs one number.
Whatever is not of this form (several topics, a log whose numbers are not ascending) is made of
dictionaries; both behave alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from itertools import repeat
from operator import lt
from typing import TypeVar

from protocol.messages import TopicId

V = TypeVar("V")

Epochs = int | tuple[int, ...]
"""One for all partitions, or one for each."""


class TopicHoldings(Mapping[int, int]):
    """Partitions of one topic, ascending, -> assignment epoch."""

    __slots__ = ("_epochs", "_partitions")

    def __init__(self, partitions: tuple[int, ...], epochs: Epochs) -> None:
        self._partitions = partitions
        self._epochs = epochs

    def __getitem__(self, partition: int) -> int:
        place = bisect_left(self._partitions, partition)
        if place == len(self._partitions) or self._partitions[place] != partition:
            raise KeyError(partition)
        return self._epochs if isinstance(self._epochs, int) else self._epochs[place]

    def __contains__(self, partition: object) -> bool:
        if not isinstance(partition, int):
            return False
        place = bisect_left(self._partitions, partition)
        return place < len(self._partitions) and self._partitions[place] == partition

    def __iter__(self) -> Iterator[int]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def items(self) -> ItemsView[int, int]:
        return _Pairs(self)

    def pairs(self) -> Iterator[tuple[int, int]]:
        epochs = self._epochs
        each = repeat(epochs) if isinstance(epochs, int) else epochs
        return zip(self._partitions, each, strict=False)

    def __repr__(self) -> str:
        return repr(dict(self.pairs()))


class _Pairs(ItemsView[int, int]):
    """Without a look-up for each."""

    __slots__ = ()
    _mapping: TopicHoldings

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self._mapping.pairs()


class _ByOneTopic(Mapping[TopicId, V]):
    """What is said of a member by topic, and is said of one."""

    __slots__ = ("_partitions", "_topic_id")
    _partitions: tuple[int, ...]
    _topic_id: TopicId

    def __contains__(self, topic_id: object) -> bool:
        return topic_id == self._topic_id

    def __iter__(self) -> Iterator[TopicId]:
        return iter((self._topic_id,))

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return repr({self._topic_id: self[self._topic_id]})


class OneTopic(_ByOneTopic[Mapping[int, int]]):
    """The holdings of a member that has partitions of one topic."""

    __slots__ = ("_epochs",)

    def __init__(self, topic_id: TopicId, partitions: tuple[int, ...], epochs: Epochs) -> None:
        self._topic_id = topic_id
        self._partitions = partitions
        self._epochs = epochs

    def __getitem__(self, topic_id: TopicId) -> TopicHoldings:
        if topic_id != self._topic_id:
            raise KeyError(topic_id)
        return TopicHoldings(self._partitions, self._epochs)

    def items(self) -> ItemsView[TopicId, Mapping[int, int]]:
        # That of a dictionary is the quickest.
        return {self._topic_id: TopicHoldings(self._partitions, self._epochs)}.items()

    def __eq__(self, other: object) -> bool:
        if type(other) is OneTopic:
            return (self._topic_id, self._partitions, self._epochs) == (
                other._topic_id,
                other._partitions,
                other._epochs,
            )
        return Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping


class OneTopicTarget(_ByOneTopic[tuple[int, ...]]):
    """The target of a member that is to have partitions of one topic, in a quarter of the memory of
    a dictionary."""

    __slots__ = ()

    def __init__(self, topic_id: TopicId, partitions: tuple[int, ...]) -> None:
        self._topic_id = topic_id
        self._partitions = partitions

    def __getitem__(self, topic_id: TopicId) -> tuple[int, ...]:
        if topic_id != self._topic_id:
            raise KeyError(topic_id)
        return self._partitions

    def items(self) -> ItemsView[TopicId, tuple[int, ...]]:
        # That of a dictionary is the quickest.
        return {self._topic_id: self._partitions}.items()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if type(other) is OneTopicTarget:
            return (self._topic_id, self._partitions) == (other._topic_id, other._partitions)
        return Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping


def partitions_by_topic(
    held: Mapping[TopicId, Mapping[int, int]],
) -> Iterable[tuple[TopicId, Iterable[int]]]:
    """What is held, without epochs."""
    if type(held) is OneTopic:
        return ((held._topic_id, held._partitions),)
    return held.items()


def one_topic(
    topic_id: TopicId,
    partitions: tuple[int, ...],
    epochs: tuple[int, ...],
    wanted: tuple[int, ...] = (),
) -> Mapping[TopicId, Mapping[int, int]]:
    """`epochs`: one for each of `partitions`, of which there are some. `wanted`: a tuple to use
    where it is equal to them, so that one stands in memory and not two."""
    if not all(map(lt, partitions, partitions[1:])):
        return {topic_id: dict(zip(partitions, epochs, strict=True))}
    alike = epochs.count(epochs[0]) == len(epochs)
    if partitions == wanted:
        partitions = wanted
    return OneTopic(topic_id, partitions, epochs[0] if alike else epochs)
