"""The checker finds what it is there for; every rule is broken once."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import Event, EventKind
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OwnedTopic,
    Record,
)
from groupd.testing.invariants import VIOLATIONS_MAX, Invariants

TOPIC = bytes(15) + b"\1"


def current(member: str, epoch: int, *partitions: int, revoking: tuple[int, ...] = ()) -> Record:
    return Record(
        ConsumerGroupCurrentMemberKey("g", member),
        ConsumerGroupCurrentMemberValue(
            epoch,
            epoch - 1,
            1,
            (OwnedTopic(TOPIC, partitions),),
            (OwnedTopic(TOPIC, revoking),) if revoking else (),
        ),
    )


def group_epoch(epoch: int) -> Record:
    return Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(epoch))


def target_epoch(epoch: int) -> Record:
    return Record(ConsumerGroupTargetMetadataKey("g"), ConsumerGroupTargetMetadataValue(epoch))


def generation(number: int) -> Record:
    return Record(GroupMetadataKey("g"), GroupMetadataValue("consumer", number, "range", "m"))


def checker(group: Group | None = None) -> Invariants:
    return Invariants(lambda _: group, lambda _: "the trace")


@pytest.mark.parametrize(
    ("batches", "what"),
    [
        ([[current("a", 2, 0, 1)], [current("b", 2, 1)]], "partition 1 .* is with a and with b"),
        ([[current("a", 2, revoking=(3,))], [current("b", 2, 3)]], "partition 3"),
        ([[current("a", 3)], [current("a", 2)]], "epoch of member a went back from 3 to 2"),
        ([[group_epoch(4)], [group_epoch(3)]], "group epoch went back"),
        ([[target_epoch(4)], [target_epoch(3)]], "target epoch went back"),
        ([[generation(4), generation(3)]], "generation went back"),
    ],
)
def test_what_must_not_be_durable(batches: list[list[Record]], what: str) -> None:
    invariants = checker()
    for batch in batches:
        invariants.on_records(batch)
    (violation,) = invariants.violations
    assert violation.startswith("group g: ")
    assert violation.endswith("\nthe trace")
    with pytest.raises(AssertionError, match=what):
        raise AssertionError(violation)


@pytest.mark.parametrize(
    "batches",
    [
        [[current("a", 2, 0, 1)], [current("a", 3, 0), current("b", 3, 1)]],
        [[current("a", 2, 0)], [current("b", 3, 0), current("a", 3)]],  # a move within one batch
        [[current("a", 2, 0)], [Record(ConsumerGroupCurrentMemberKey("g", "a"))],
         [current("b", 3, 0)]],
        [[current("a", 5)], [current("a", -2)], [current("a", 1)]],  # a static member comes back
        [[group_epoch(4)], [Record(ConsumerGroupMetadataKey("g"))], [group_epoch(1)]],
        [[generation(4)], [generation(4)], [generation(5)]],
    ],
)  # fmt: skip
def test_what_may_be(batches: list[list[Record]]) -> None:
    invariants = checker()
    for batch in batches:
        invariants.on_records(batch)
    assert invariants.violations == []


def consumer_group() -> ConsumerGroup:
    group = ConsumerGroup("g")
    for name, number in (("a", 0), ("b", 1)):
        group.members[name] = ConsumerGroupMember(
            member_id=name,
            member_epoch=3,
            state=MemberState.STABLE,
            assigned={TOPIC: {number: 3}},
        )
    return group


@pytest.mark.parametrize(
    ("member", "epoch", "what"),
    [
        ("c", 3, "c moved an offset at epoch 3, but is no member"),
        ("a", 4, "a moved an offset at epoch 4, but is at 3"),
        ("", -1, "from outside a group in use"),
        ("a", 3, None),
        ("a", 2, None),  # an older epoch is for the coordinator to judge, by partition
    ],
)
def test_who_may_move_offsets(member: str, epoch: int, what: str | None) -> None:
    invariants = checker(consumer_group())
    invariants.on_events(0, [Event("consumer", EventKind.OFFSETS_COMMITTED, "g", member, epoch)])
    assert len(invariants.violations) == (what is not None)
    assert what is None or what in invariants.violations[0]


def test_a_transaction_may_move_offsets_of_a_group_in_use() -> None:
    invariants = checker(consumer_group())
    details = {"count": 1, "transactional": True}
    invariants.on_events(0, [Event("consumer", EventKind.OFFSETS_COMMITTED, "g", details=details)])
    assert invariants.violations == []


def test_owners_in_memory_are_looked_at_after_every_event() -> None:
    group = consumer_group()
    invariants = checker(group)
    event = Event("consumer", EventKind.MEMBER_JOINED, "g", "a", 3)
    invariants.on_events(0, [event])
    assert invariants.violations == []
    group.members["b"] = ConsumerGroupMember(
        member_id="b", member_epoch=3, state=MemberState.STABLE, assigned={TOPIC: {0: 3}}
    )
    invariants.on_events(0, [event])
    assert "is with a and with b (in memory)" in invariants.violations[0]


def test_violations_are_bounded_and_a_reset_forgets_epochs() -> None:
    invariants = checker()
    for _ in range(VIOLATIONS_MAX + 5):
        invariants.on_records([group_epoch(4), group_epoch(3)])
    assert len(invariants.violations) == VIOLATIONS_MAX
    invariants.reset()
    invariants.violations.clear()
    invariants.on_records([group_epoch(1)])
    assert invariants.violations == []
