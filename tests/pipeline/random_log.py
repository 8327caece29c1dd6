"""A log of everything that can happen to offsets, made by a real shard that takes record for
record, so that states come up often which clients reach only now and then."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.offsets import OffsetFetchGroup
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
)
from tests.unit.history.harness import T_ID, LoggedShard

CLASSIC, CONSUMER, SIMPLE = ("c1", "c2"), ("n1", "n2"), ("s1",)
GROUPS = (*CLASSIC, *CONSUMER, *SIMPLE)
PARTITIONS = 3
PRODUCERS = 3
MEMBERS = ("m1", "m2")

Answer = dict[tuple[str, str, int], tuple[int, int, str]]
"""Offset, leader epoch and metadata, by group, topic and partition."""


@dataclass
class Instant:
    """What OffsetFetch answered at a time; `pending`: what it refused a stable reader."""

    time_ms: int
    answer: Answer
    pending: set[tuple[str, str, int]] = field(default_factory=set)


class RandomLog:
    def __init__(self, seed: int, steps: int) -> None:
        self.random = Random(seed)
        self.log = LoggedShard()
        self.instants: list[Instant] = []
        self._epoch = 0
        self._steps = [
            (self._commit, 8),
            (self._transactional, 6),
            (self._marker, 4),
            (self._tombstone, 2),
            (self._rebalance_classic, 2),
            (self._rebalance_consumer, 3),
            (self._sweep, 1),
            (self._delete_group, 1),
        ]
        stops = {steps // 3, 2 * steps // 3, steps - 1}
        for step in range(steps):
            kinds, weights = zip(*self._steps, strict=True)
            self.random.choices(kinds, weights)[0]()
            if step in stops:
                self.instants.append(self.now())

    def now(self) -> Instant:
        instant = Instant(self.log.now_ms, {})
        for group in GROUPS:
            for place, offset in self.log.answer(group).items():
                instant.answer[group, *place] = offset
            asked = OffsetFetchGroup(group, None, require_stable=True)
            instant.pending.update(
                (group, topic.name, entry.partition)
                for topic in self.log.request(asked).topics
                for entry in topic.partitions
                if entry.error
            )
        return instant

    def _place(self) -> OffsetCommitKey:
        random = self.random
        return OffsetCommitKey(
            random.choice(GROUPS), random.choice(("t", "u")), random.randrange(PARTITIONS)
        )

    def _values(self) -> list[Record]:
        return [Record(self._place(), self._value()) for _ in range(self.random.choice((1, 1, 3)))]

    def _value(self) -> OffsetCommitValue:
        random, now_ms = self.random, self.log.now_ms
        value = OffsetCommitValue(random.randrange(10), -1, random.choice(("", "m")), now_ms)
        if random.random() < 0.1:  # written as version 1, which has no more fields
            return value._replace(expire_timestamp_ms=now_ms + 60_000)
        return value._replace(leader_epoch=4, topic_id=random.choice((NO_TOPIC_ID, T_ID, T_ID)))

    def _commit(self) -> None:
        self.log.write(self._values())

    def _transactional(self) -> None:
        self.log.write(self._values(), self.random.randrange(PRODUCERS))

    def _marker(self) -> None:
        self.log.marker(self.random.randrange(PRODUCERS), commit=self.random.random() < 0.7)

    def _tombstone(self) -> None:
        self.log.write([Record(self._place())])

    def _rebalance_classic(self) -> None:
        members = self.random.sample(MEMBERS, self.random.randrange(3))
        assigned = {
            member: tuple(range(PARTITIONS))[index :: len(members)]
            for index, member in enumerate(members)
        }
        self.log.members(self.random.choice(CLASSIC), self.random.randrange(1, 9), **assigned)

    def _rebalance_consumer(self) -> None:
        group, member = self.random.choice(CONSUMER), self.random.choice(MEMBERS)
        self._epoch += 1
        epoch = self._epoch
        records = [Record(ConsumerGroupMetadataKey(group), ConsumerGroupMetadataValue(epoch))]
        if self.random.random() < 0.4:
            records = [
                Record(ConsumerGroupCurrentMemberKey(group, member)),
                Record(ConsumerGroupMemberMetadataKey(group, member)),
                *records,
            ]
        else:
            self._join(records, group, member, epoch)
        self.log.write(records)

    def _join(self, records: list[Record], group: str, member: str, epoch: int) -> None:
        """Both members may have the same partition: a log can say so, whoever wrote it."""
        random = self.random
        instance = random.choice((None, f"i-{member}"))
        described = ConsumerGroupMemberMetadataValue(
            instance, None, f"client-{member}", "/h", ("t",), None
        )
        pick = sorted(random.sample(range(PARTITIONS), random.randrange(PARTITIONS + 1)))
        owned = OwnedTopic(T_ID, tuple(pick), (epoch,) * len(pick))
        both = [(owned,), ()]
        random.shuffle(both)
        current = ConsumerGroupCurrentMemberValue(epoch, epoch - 1, 0, *both)
        records[:0] = [Record(ConsumerGroupMemberMetadataKey(group, member), described)]
        records += [Record(ConsumerGroupCurrentMemberKey(group, member), current)]

    def _sweep(self) -> None:
        self.log.sweep(self.random.choice((0, 600_000, 3_600_000)))

    def _delete_group(self) -> None:
        group = self.random.choice(GROUPS)
        if self.random.random() < 0.2 and group not in CONSUMER:
            # The coordinator does not do it so: offsets that are left show again with a new group.
            self.log.write([Record(GroupMetadataKey(group))])
        else:
            self.log.delete_group(group)
