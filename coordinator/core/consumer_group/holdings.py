"""What a member holds, in little memory: topic id -> partition -> assignment epoch, read-only.

Nearly every member holds partitions of one topic, or the same ones of several, and nearly always
all since the same epoch. A dictionary for each topic and one around them would be most of what a
member takes. Here the partition numbers are the tuple that the member's target has too, and equal
epochs one number. Whatever is not of this form (a log whose numbers are not ascending) is made of
dictionaries; both behave alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from itertools import repeat
from operator import lt

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.assignors.even import ByTopic, shared_topics
from groupd.protocol.messages import TopicId

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


class EvenHoldings(ByTopic[Mapping[int, int]]):
    """The holdings of a member that has the same partitions of each of its topics, each since the
    same epoch in all of them."""

    __slots__ = ("_epochs",)

    def __init__(
        self, topics: dict[TopicId, None], partitions: tuple[int, ...], epochs: Epochs
    ) -> None:
        self.topics = topics
        self.partitions = partitions
        self._epochs = epochs

    def __getitem__(self, topic_id: TopicId) -> TopicHoldings:
        if topic_id not in self.topics:
            raise KeyError(topic_id)
        return TopicHoldings(self.partitions, self._epochs)

    def items(self) -> ItemsView[TopicId, Mapping[int, int]]:
        # That of a dictionary is the quickest.
        held: Mapping[int, int] = TopicHoldings(self.partitions, self._epochs)
        return dict.fromkeys(self.topics, held).items()

    def __eq__(self, other: object) -> bool:
        if type(other) is EvenHoldings:
            return (self.partitions, self._epochs) == (other.partitions, other._epochs) and (
                self.topics is other.topics or self.topics == other.topics
            )
        return Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping


def partitions_by_topic(
    held: Mapping[TopicId, Mapping[int, int]],
) -> Iterable[tuple[TopicId, Iterable[int]]]:
    """What is held, without epochs."""
    if type(held) is EvenHoldings:
        return zip(held.topics, repeat(held.partitions), strict=False)
    return held.items()


def even_holdings(
    topic_ids: tuple[TopicId, ...],
    partitions: tuple[int, ...],
    epochs: tuple[int, ...],
    target: Assignment,
) -> Mapping[TopicId, Mapping[int, int]]:
    """`epochs`: one for each of `partitions`, of which there are some, ascending. A tuple that is
    as in `target` stands in memory once and not twice."""
    wanted = target.get(topic_ids[0], ())
    held = wanted if wanted == partitions else partitions
    return EvenHoldings(shared_topics(topic_ids), held, _short(epochs))


def topic_holdings(
    topic_id: TopicId,
    partitions: tuple[int, ...],
    epochs: tuple[int, ...],
    target: Assignment,
) -> Mapping[int, int]:
    """Of one topic among others of which there are other partitions, or since other epochs."""
    if not ascend(partitions):
        return dict(zip(partitions, epochs, strict=True))
    wanted = target.get(topic_id, ())
    return TopicHoldings(wanted if wanted == partitions else partitions, _short(epochs))


def ascend(partitions: tuple[int, ...]) -> bool:
    return all(map(lt, partitions, partitions[1:]))


def _short(epochs: tuple[int, ...]) -> Epochs:
    return epochs[0] if epochs.count(epochs[0]) == len(epochs) else epochs
