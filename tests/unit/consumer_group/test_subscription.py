"""Subscription and metadata: what the scenarios of `consumer_subscription` do not show."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.assignors.api import SubscriptionType
from tests.unit.consumer_group.harness import BAR, FOO, Scripted, Shard, topic

FOO_TOPIC, BAR_TOPIC = topic("foo", FOO), topic("bar", BAR, 2)


def one_member(**settings: Any) -> Shard:
    """G@10, m1 owns foo."""
    shard = Shard(FOO_TOPIC, BAR_TOPIC, **settings)
    shard.put_member("m1", assigned={FOO: dict.fromkeys(range(6), 10)})
    shard.settle(m1={FOO: range(6)})
    return shard


def test_same_names_in_another_order_change_nothing() -> None:
    shard = one_member()
    shard.beat(10, names=["foo", "bar"])
    shard.beat(11, names=["foo", "bar", "foo"])
    assert shard.shape() == []


def test_another_client_id_is_written_without_a_bump() -> None:
    shard = one_member()
    assert shard.beat(10, client_id="other").member_epoch == 10
    assert shard.shape() == ["R5"]


def test_metadata_of_other_topics_does_not_matter() -> None:
    shard = one_member()
    shard.topics(FOO_TOPIC, topic("bar", BAR, 9))
    shard.beat(10)
    assert shard.shape() == []
    assert shard.group.refresh_deadline_epoch == 10


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
