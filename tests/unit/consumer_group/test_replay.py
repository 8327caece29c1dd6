"""Replay: docs/spec/consumer-group.md#3 "Replay" and docs/spec/offsets-and-log.md#5.2, with the
fatal cases."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group import records
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.errors import ReplayError
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    OwnedTopic,
    Record,
)
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic


def joined() -> Shard:
    shard = Shard(topic("foo", FOO))
    shard.beat(0)
    return shard


@pytest.mark.parametrize(
    "record",
    [
        records.group_epoch_tombstone(GROUP),
        records.target_epoch_tombstone(GROUP),
        records.member_metadata_tombstone(GROUP, "m1"),
    ],
    ids=["group with members", "target epoch with targets", "live member"],
)
def test_fatal_records(record: Record) -> None:
    with pytest.raises(ReplayError):
        joined().replay(record)


def test_removal_while_the_target_names_the_member() -> None:
    shard = joined()
    shard.replay(records.current_member_tombstone(GROUP, "m1"))
    with pytest.raises(ReplayError, match="with a target"):
        shard.replay(records.member_metadata_tombstone(GROUP, "m1"))


def test_group_goes_only_after_its_targets() -> None:
    shard = joined()
    shard.replay(records.current_member_tombstone(GROUP, "m1"))
    member, target = shard.member(), records.target_member(GROUP, "m9", {})
    shard.replay(records.target_member_tombstone(GROUP, "m1"))
    shard.replay(records.member_metadata_tombstone(GROUP, member.member_id))
    with pytest.raises(ReplayError, match="before its target assignment"):
        shard.replay(records.group_epoch_tombstone(GROUP))
    shard.replay(target)
    with pytest.raises(ReplayError, match="targets"):
        shard.replay(records.group_epoch_tombstone(GROUP))


def test_partition_cannot_have_two_holders() -> None:
    shard = joined()
    for epoch in (1, 2):
        with pytest.raises(ReplayError, match="held at epoch 2"):
            shard.put_member("m2", member_epoch=epoch, assigned={FOO: {0: epoch}})


def test_compaction_may_hide_the_release() -> None:
    """A holder at a higher epoch displaces one whose later records were compacted away."""
    shard = joined()
    shard.put_member("m2", member_epoch=3, assigned={FOO: {0: 3}})
    assert shard.group.partition_epochs.get(FOO, 0) == 3
    shard.put_member("m1", member_epoch=3, assigned={FOO: {1: 3}})
    assert shard.group.partition_epochs.get(FOO, 0) == 3
    assert shard.group.partition_epochs.get(FOO, 2) == -1


def test_tombstones_for_the_unknown_are_ignored() -> None:
    shard = Shard()
    for record in (
        *records.member_removal(GROUP, "m1"),
        records.target_epoch_tombstone(GROUP),
        records.regex_tombstone(GROUP, "a"),
        records.partition_metadata_tombstone(GROUP),
        records.group_epoch_tombstone(GROUP),
    ):
        shard.replay(record)
    assert shard.state.groups == {}
    shard.replay(records.group_epoch(GROUP, 3, 0))
    for record in (*records.member_removal(GROUP, "m1"), records.regex_tombstone(GROUP, "a")):
        shard.replay(record)
    assert shard.group.group_epoch == 3


@pytest.mark.parametrize(
    "record", [records.group_epoch(GROUP, 3, 0), records.regex_tombstone(GROUP, "a")]
)
def test_simple_group_is_replaced(record: Record) -> None:
    shard = Shard()
    shard.state.groups[GROUP] = ClassicGroup.simple(GROUP)
    shard.replay(record)
    assert isinstance(shard.state.groups[GROUP], ConsumerGroup)


def test_any_other_group_is_fatal() -> None:
    shard = Shard()
    shard.state.groups[GROUP] = ClassicGroup(GROUP, protocol_type="consumer")
    with pytest.raises(ReplayError, match="classic group"):
        shard.replay(records.group_epoch(GROUP, 3, 0))


@pytest.mark.parametrize(
    ("epoch", "given", "expected"), [(7, None, 7), (7, (1,), 7), (-2, None, 0), (7, (4, 5), 4)]
)
def test_missing_assignment_epochs(
    epoch: int, given: tuple[int, ...] | None, expected: int
) -> None:
    shard = Shard()
    value = ConsumerGroupCurrentMemberValue(epoch, 6, 0, (OwnedTopic(FOO, (0, 1), given),))
    shard.replay(Record(ConsumerGroupCurrentMemberKey(GROUP, "m1"), value))
    assert shard.member().assigned[FOO][0] == expected
