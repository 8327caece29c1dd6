"""Which share-partitions of a group have durable state at the share coordinator
(docs/spec/share-group.md#2.4): those that are being initialized, those that are, and topics whose
state is being deleted. Plain data: every change makes a new object, of which a record is made."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from msgspec import Struct, field

from groupd.protocol.messages import TopicId

PartitionSets = Mapping[TopicId, frozenset[int]]
"""PartitionSets by topic id. There are no empty sets."""


class StatePartitions(Struct, frozen=True):
    """`names`: of all topics in the other three, by id."""

    initializing: PartitionSets = field(default_factory=dict)
    initialized: PartitionSets = field(default_factory=dict)
    deleting: frozenset[TopicId] = frozenset()
    names: Mapping[TopicId, str] = field(default_factory=dict)

    def with_initializing(
        self, wanted: PartitionSets, names: Mapping[TopicId, str]
    ) -> StatePartitions:
        """These partitions are being initialized from now on, too, except those that are
        initialized: they stay so whatever becomes of it. The topics of all of them are not being
        deleted any more."""
        return self._named(
            joined(self.initializing, _without(wanted, self.initialized)),
            self.initialized,
            self.deleting - wanted.keys(),
            {**self.names, **names},
        )

    def with_initialized(self, done: PartitionSets) -> StatePartitions:
        """These partitions are initialized, as far as they were being initialized: a topic may be
        deleted meanwhile."""
        moved = _common(self.initializing, done)
        return self._named(
            _without(self.initializing, moved), joined(self.initialized, moved), self.deleting
        )

    def with_failed(self, failed: PartitionSets) -> StatePartitions:
        """These partitions could not be initialized. Some may have a state nevertheless, if only
        the answer was lost. So a topic of which nothing else is left counts as being deleted: its
        state goes with the group, unless a heartbeat initializes it anew."""
        left = _without(self.initializing, failed)
        gone = self.initializing.keys() - left.keys() - self.initialized.keys()
        return self._named(left, self.initialized, self.deleting | gone)

    def with_deleting(self, topic_ids: Collection[TopicId]) -> StatePartitions:
        """The state of these topics is being deleted."""
        kept = self.without_topics(topic_ids)
        return self._named(kept.initializing, kept.initialized, self.deleting | set(topic_ids))

    def all_deleting(self, existing: Container[TopicId]) -> StatePartitions:
        """Everything is being deleted. Topics that were being deleted, and do not exist any more,
        are left out."""
        kept = {topic_id for topic_id in self.deleting if topic_id in existing}
        return self._named({}, {}, frozenset({*self.initializing, *self.initialized, *kept}))

    def without_deleting(self, topic_ids: Collection[TopicId]) -> StatePartitions:
        """The state of these topics is deleted."""
        return self._named(self.initializing, self.initialized, self.deleting.difference(topic_ids))

    def without_topics(self, topic_ids: Container[TopicId]) -> StatePartitions:
        """These topics do not exist any more."""
        initializing, initialized = (
            {topic_id: its for topic_id, its in partitions.items() if topic_id not in topic_ids}
            for partitions in (self.initializing, self.initialized)
        )
        deleting = frozenset(one for one in self.deleting if one not in topic_ids)
        return self._named(initializing, initialized, deleting)

    def _named(
        self,
        initializing: PartitionSets,
        initialized: PartitionSets,
        deleting: frozenset[TopicId],
        names: Mapping[TopicId, str] | None = None,
    ) -> StatePartitions:
        known = self.names if names is None else names
        topics = {*initializing, *initialized, *deleting}
        return StatePartitions(
            initializing, initialized, deleting, {one: known[one] for one in topics}
        )


NO_STATE_PARTITIONS = StatePartitions()


def joined(these: PartitionSets, those: PartitionSets) -> dict[TopicId, frozenset[int]]:
    """The partitions of both."""
    nobody: frozenset[int] = frozenset()
    return {
        topic_id: these.get(topic_id, nobody) | those.get(topic_id, nobody)
        for topic_id in {**these, **those}
    }


def _common(these: PartitionSets, those: PartitionSets) -> dict[TopicId, frozenset[int]]:
    both = {one: its & those[one] for one, its in these.items() if one in those}
    return {topic_id: numbers for topic_id, numbers in both.items() if numbers}


def _without(these: PartitionSets, gone: PartitionSets) -> dict[TopicId, frozenset[int]]:
    nobody: frozenset[int] = frozenset()
    left = {one: its - gone.get(one, nobody) for one, its in these.items()}
    return {topic_id: numbers for topic_id, numbers in left.items() if numbers}
