"""docs/spec/consumer-group.md#11 "Subscription and metadata" (CG-34 to CG-44)."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.assignors.api import SubscriptionType
from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.records.schema import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    Record,
)
from tests.unit.consumer_group.harness import BAR, FOO, GROUP, Scripted, Shard, parts, topic

FOO_TOPIC, BAR_TOPIC = topic("foo", FOO), topic("bar", BAR, 2)


def one_member(**settings: Any) -> Shard:
    """G@10, m1 owns foo."""
    shard = Shard(FOO_TOPIC, BAR_TOPIC, **settings)
    shard.put_member("m1", assigned={FOO: dict.fromkeys(range(6), 10)})
    shard.settle(m1={FOO: range(6)})
    return shard


def test_cg_34_another_topic() -> None:
    shard = one_member()
    reply = shard.beat(10, names=["foo", "bar"])
    assert shard.shape() == ["R5", "R3", "R7", "R6", "R8"]
    assert (reply.member_epoch, shard.group.group_epoch) == (11, 11)
    assert shard.member().assigned == {
        FOO: dict.fromkeys(range(6), 10),
        BAR: dict.fromkeys(range(2), 11),
    }
    assert shard.member().subscribed_topic_names == ("bar", "foo")
    (bump,) = shard.events(EventKind.GROUP_EPOCH_BUMPED)
    assert "m1 changed its topic names" in bump.cause


def test_same_names_in_another_order_change_nothing() -> None:
    shard = one_member()
    shard.beat(10, names=["foo", "bar"])
    shard.beat(11, names=["foo", "bar", "foo"])
    assert shard.shape() == []


@pytest.mark.parametrize("change", [{"rack": "r"}, {"timeout": 5}, {"client_id": "other"}])
def test_cg_35_changes_without_a_bump(change: dict[str, Any]) -> None:
    shard = one_member()
    assert shard.beat(10, **change).member_epoch == 10
    assert shard.shape() == ["R5"]


@pytest.mark.parametrize(
    "new", [topic("foo", FOO, 7), topic("foo", FOO, 6, racks=(("r1",),) * 6)], ids=["grown", "rack"]
)
def test_cg_36_metadata_changes(new: Any) -> None:
    shard = one_member()
    shard.topics(new, BAR_TOPIC)
    assert shard.beat(10, owned={FOO: range(6)}).member_epoch == 11
    assert shard.shape()[0] == "R3"
    assert shard.group.group_epoch == 11


def test_metadata_of_other_topics_does_not_matter() -> None:
    shard = one_member()
    shard.topics(FOO_TOPIC, topic("bar", BAR, 9))
    shard.beat(10)
    assert shard.shape() == []
    assert shard.group.refresh_deadline_epoch == 10


def test_cg_37_topic_deleted() -> None:
    shard = one_member()
    shard.topics(BAR_TOPIC)
    reply = shard.beat(10, owned={FOO: range(6)})
    assert (reply.member_epoch, parts(reply.assignment)) == (10, {})
    assert shard.group.group_epoch == 11
    assert shard.member().state is MemberState.UNREVOKED_PARTITIONS
    assert shard.beat(10, owned={}).member_epoch == 11


def test_cg_38_loaded_group_refreshes_once() -> None:
    shard = one_member()
    shard.reload()
    shard.beat(10)
    assert shard.shape() == []
    shard.reload()
    shard.state.image = type(shard.state.image)([topic("foo", FOO, 8)], 5)
    shard.beat(10)
    assert shard.shape()[0] == "R3"
    assert shard.group.group_epoch == 11


def test_cg_39_lost_bump_is_repeated() -> None:
    shard = one_member()
    shard.topics(topic("foo", FOO, 7), BAR_TOPIC)
    lost = shard.handle(10)
    assert shard.group.group_epoch == 10
    again = shard.handle(10)
    assert lost.records[0] == again.records[0]
    shard.apply(again)
    assert shard.group.group_epoch == 11


def test_cg_40_legacy_metadata_goes_at_the_first_refresh() -> None:
    shard = one_member()
    key = ConsumerGroupPartitionMetadataKey(GROUP)
    shard.replay(Record(key, ConsumerGroupPartitionMetadataValue(b"old")))
    shard.beat(10)
    assert shard.shape() == []
    shard.topics(topic("foo", FOO, 7), BAR_TOPIC)
    shard.beat(10)
    assert shard.shape()[:2] == ["R3", "T4"]
    shard.topics(topic("foo", FOO, 8), BAR_TOPIC)
    shard.beat(shard.member().member_epoch)
    assert "T4" not in shard.shape()


def test_cg_41_preferred_assignor_is_voted_for() -> None:
    shard = Shard(FOO_TOPIC)
    for member in ("m1", "m2", "m3"):
        shard.put_member(member, server_assignor="uniform")
    shard.settle(m1={}, m2={}, m3={})
    shard.beat(10, "m1", assignor="range")
    assert shard.group.group_epoch == 10
    shard.beat(10, "m2", assignor="range")
    assert shard.group.group_epoch == 11
    (bump,) = shard.events(EventKind.GROUP_EPOCH_BUMPED)
    assert "from uniform to range" in bump.cause


def test_cg_42_assignment_interval() -> None:
    shard = Shard(FOO_TOPIC, consumer_assignment_interval_ms=5000)
    shard.beat(0)
    shard.advance(4995)
    reply = shard.beat(0, "m2")
    assert shard.shape() == ["R5", "R3", "R8"]
    assert (reply.member_epoch, reply.assignment, shard.group.group_epoch) == (2, (), 3)
    assert shard.group.state_name() == "Assigning"
    shard.beat(2)
    assert shard.group.assignment_epoch == 2
    shard.advance(5)
    shard.beat(2)
    assert shard.group.assignment_epoch == 3


def test_cg_43_emptied_group_need_not_wait() -> None:
    shard = Shard(FOO_TOPIC, consumer_assignment_interval_ms=5000)
    shard.beat(0)
    shard.beat(-1)
    assert shard.beat(0).member_epoch == 4
    assert shard.group.assignment_epoch == 4


def test_cg_44_pruned_while_the_target_is_delayed() -> None:
    shard = Shard(FOO_TOPIC, BAR_TOPIC, consumer_assignment_interval_ms=5000)
    shard.beat(0, names=["foo", "bar"])
    reply = shard.beat(2, names=["bar"])
    assert (reply.member_epoch, parts(reply.assignment)) == (2, {BAR: [0, 1]})
    assert shard.member().state is MemberState.UNREVOKED_PARTITIONS
    assert shard.group.assignment_epoch == 2
    assert shard.group.group_epoch == 3


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"names": ["foo"]}, SubscriptionType.HOMOGENEOUS),
        ({"names": ["foo", "bar"]}, SubscriptionType.HETEROGENEOUS),
        ({"names": ["foo"], "regex": "b.*"}, SubscriptionType.HETEROGENEOUS),
    ],
)
def test_what_the_assignor_sees(second: dict[str, Any], expected: SubscriptionType) -> None:
    assignor = Scripted(target={"m1": {FOO: range(6)}})
    shard = Shard(FOO_TOPIC, BAR_TOPIC, assignor=assignor)
    shard.beat(0)
    shard.beat(0, "m0", rack="r", **second)
    shard.beat(2, names=["foo", "gone"])
    shard.beat(shard.member().member_epoch, names=["foo"])
    seen = assignor.seen
    assert seen is not None
    assert list(seen.members) == ["m0", "m1"]
    assert seen.subscription_type is expected
    assert seen.members["m0"].rack_id == "r"
    assert seen.members["m1"].topic_ids == {FOO}
    assert dict(seen.members["m1"].assigned) == {FOO: tuple(range(6))}
    assert seen.is_assigned(FOO, 5)
    assert not seen.is_assigned(BAR, 0)
