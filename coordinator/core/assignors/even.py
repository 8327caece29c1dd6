"""An assignment of the same partitions of each of several topics, in little memory.

That is what every member of a group gets that subscribes to one topic, and what `range` gives for
topics of one size, so that they can be joined. A dictionary for each member would be most of what
making and keeping such a target takes.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

from groupd.protocol.messages import TopicId

V_co = TypeVar("V_co", covariant=True)

SHARED_SETS = 4096
"""Sets of topics that are remembered. With more of them equal sets stand in memory twice."""


class ByTopic(Mapping[TopicId, V_co]):
    """The same of each of `topics`: keys in ascending order, at least one, from `shared_topics`,
    never changed. `partitions`: ascending, at least one."""

    __slots__ = ("partitions", "topics")
    partitions: tuple[int, ...]
    topics: dict[TopicId, None]

    def __contains__(self, topic_id: object) -> bool:
        return topic_id in self.topics

    def __iter__(self) -> Iterator[TopicId]:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class EvenAssignment(ByTopic[tuple[int, ...]]):
    """Reads as the dictionary in which each of `topics` has `partitions`."""

    __slots__ = ()

    def __init__(self, topics: dict[TopicId, None], partitions: tuple[int, ...]) -> None:
        self.topics = topics
        self.partitions = partitions

    def __getitem__(self, topic_id: TopicId) -> tuple[int, ...]:
        if topic_id not in self.topics:
            raise KeyError(topic_id)
        return self.partitions

    def items(self) -> ItemsView[TopicId, tuple[int, ...]]:
        # That of a dictionary is the quickest.
        return dict.fromkeys(self.topics, self.partitions).items()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if type(other) is EvenAssignment:
            return self.partitions == other.partitions and (
                self.topics is other.topics or self.topics == other.topics
            )
        if type(other) is dict:
            # By size first: that a new member has nothing yet is the usual case.
            if len(other) != len(self.topics):
                return False
            return dict.fromkeys(self.topics, self.partitions) == other
        return Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping


@lru_cache(SHARED_SETS)
def shared_topics(topic_ids: tuple[TopicId, ...]) -> dict[TopicId, None]:
    """`topic_ids`, ascending, as the keys of a dictionary that all have who ask for the same."""
    return dict.fromkeys(topic_ids)
