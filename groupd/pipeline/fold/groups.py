"""The fold over all groups of one partition of the log: takes entries in order and gives facts."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.pipeline.fold import classic, consumer, rebalances
from groupd.pipeline.fold.entry import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    KINDS,
    OFFSET_KINDS,
    FoldEntry,
    FoldFacts,
    FoldObserver,
)
from groupd.pipeline.fold.state import (
    CLASSIC,
    CONSUMER,
    SUPERSEDED,
    FoldedGroup,
    MemberInterval,
    OwnedPartition,
    Settings,
    TopicNames,
)
from groupd.pipeline.fold.tracker import Tracker


class GroupsFold:
    """`topics`: topic names by id. Facts about finished intervals come while the log is read;
    `finish` adds those about intervals that go on at the end of the log."""

    def __init__(
        self,
        facts: FoldFacts,
        topics: TopicNames,
        settings: Settings | None = None,
        observers: Sequence[FoldObserver] = (),
    ) -> None:
        self.groups: dict[str, FoldedGroup] = {}
        self._tracker = Tracker(facts, topics, settings or Settings(), observers)

    def feed(self, entry: FoldEntry) -> None:
        """Takes the next entry of the partition. Kinds that do not concern groups are ignored."""
        if entry.kind is None:
            for observer in self._tracker.observers:
                observer.transaction_ended(entry)
        elif entry.kind in OFFSET_KINDS:
            self._offset(entry)
        elif entry.kind in KINDS:
            self._group_record(entry)

    def finish(self) -> None:
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            self._tracker.flush(group)
            rebalances.close(self._tracker, group)
            self._tracker.close(group)
        for observer in self._tracker.observers:
            observer.finished(self.groups)

    def _offset(self, entry: FoldEntry) -> None:
        topic_id = None if entry.value is None else entry.value["topic_id"]
        self._tracker.topics.learn(topic_id, entry.topic)
        group = self.groups.get(entry.group)
        holder: MemberInterval | None = None
        if group is not None and entry.value is not None:
            holder = self._holder(group, entry, topic_id)
            if holder is not None:
                holder.committed(entry.at_ms)
        for observer in self._tracker.observers:
            observer.committed(group, entry, holder)

    def _holder(
        self, group: FoldedGroup, entry: FoldEntry, topic_id: str | None
    ) -> MemberInterval | None:
        place = place_of(group.protocol, self._tracker.topics, entry, topic_id)
        holding = None if place is None else group.holders.get(place)
        return None if holding is None else group.members.get(holding.owner.member_id)

    def _group_record(self, entry: FoldEntry) -> None:
        group = self.groups.get(entry.group)
        protocol = CLASSIC if entry.kind == CLASSIC_GROUP else CONSUMER
        if entry.tombstone and entry.kind in (CLASSIC_GROUP, CONSUMER_GROUP):
            if group is not None and group.protocol == protocol:
                self._deleted(group, entry)
            return
        if group is None:
            if entry.tombstone:
                return
            group = self.groups[entry.group] = FoldedGroup(
                entry.group, entry.log_partition, protocol
            )
        group.last_ms = entry.at_ms
        if group.departing and group.departing_ms != entry.at_ms:
            self._tracker.flush(group)
        if group.protocol != protocol:
            group = self._converted(group, entry, protocol)
        if protocol == CLASSIC:
            classic.apply(self._tracker, group, entry)
        else:
            consumer.apply(self._tracker, group, entry)
        _note_emptiness(group, entry.at_ms)

    def _deleted(self, group: FoldedGroup, entry: FoldEntry) -> None:
        """Handles a tombstone of the group: its end, or the first half of a conversion."""
        group.last_ms = entry.at_ms
        for member_id in sorted(group.members):
            self._tracker.depart(group, member_id, entry.at_ms)
        if group.rebalance is not None:
            rebalances.over(self._tracker, group, group.rebalance, SUPERSEDED)
        rebalances.close(self._tracker, group)
        consumer.forget(group)
        if not group.departing:
            del self.groups[group.group_id]
            for observer in self._tracker.observers:
                observer.group_deleted(group.group_id)

    def _converted(self, group: FoldedGroup, entry: FoldEntry, protocol: str) -> FoldedGroup:
        """Handles a conversion; returns the group, with its members, in the other protocol."""
        for member_id in sorted(group.members):
            self._tracker.depart(group, member_id, entry.at_ms)
        rebalances.close(self._tracker, group)
        converted = self.groups[entry.group] = FoldedGroup(
            entry.group, entry.log_partition, protocol
        )
        converted.departing, converted.departing_ms = group.departing, entry.at_ms
        converted.holders = group.holders
        converted.complete = True
        converted.converted_ms = entry.at_ms if group.departing else None
        converted.short_lives = group.short_lives
        converted.left_since = group.left_since
        converted.last_ms = entry.at_ms
        return converted


def place_of(
    protocol: str, topics: TopicNames, entry: FoldEntry, topic_id: str | None
) -> OwnedPartition | None:
    """The partition of an offset record, with the topic named as in the group's other records: by
    id in a consumer group, by name in a classic group. None if the topic id is not known."""
    if protocol == CLASSIC:
        return (entry.topic, entry.partition)
    topic_id = topic_id or topics.id_of(entry.topic)
    return None if topic_id is None else (topic_id, entry.partition)


def _note_emptiness(group: FoldedGroup, at_ms: int) -> None:
    if group.members:
        group.empty_since_ms = None
    elif group.empty_since_ms is None:
        group.empty_since_ms = at_ms
