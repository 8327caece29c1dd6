"""The validity of a settled heartbeat: who gets one, what renewing does, what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupd.coordinator.core.types import ReplyValidity
from tests.unit.consumer_group.harness import BAR, FOO, GROUP, Shard, topic

SESSION_MS = 45_000


def settled() -> tuple[Shard, ReplyValidity]:
    """m1 alone, stable at epoch 2, and the validity of its last heartbeat."""
    shard = Shard(topic("foo", FOO))
    shard.beat(0)
    shard.beat(2, owned={FOO: [0, 1, 2, 3, 4, 5]})
    validity = shard.handle(2).reply_validity
    assert validity is not None
    return shard, validity


def test_renewing_starts_the_session_anew_and_does_nothing_else() -> None:
    shard, validity = settled()
    shard.advance(30_000)
    assert validity.renew(shard.now.monotonic_ms)
    shard.advance(SESSION_MS - 1)
    assert shard.fire() == []
    shard.advance(1)
    (outcome,) = shard.fire()
    assert outcome.records, "the member is fenced a full session after the renewal"


def test_a_heartbeat_with_something_to_do_gives_no_lease() -> None:
    shard = Shard(topic("foo", FOO))
    assert shard.send(0).reply_validity is None
    shard.beat(0, "m2")
    assert shard.handle(2).reply_validity is None, "m1 has partitions to give up"


def test_a_group_with_a_regular_expression_gives_no_lease() -> None:
    shard = Shard(topic("foo", FOO))
    shard.beat(0, names=[], regex="fo+")
    shard.finish_task()
    shard.beat(1)
    shard.beat(2)
    assert shard.handle(2).reply_validity is None


ENDINGS: dict[str, Callable[[Shard], object]] = {
    "another member joins": lambda s: s.beat(0, "m2"),
    "the subscription changes": lambda s: s.beat(2, names=["foo", "bar"]),
    "the client host or id changes": lambda s: s.beat(2, client_id="other"),
    "the member leaves": lambda s: s.beat(-1),
    "the topic grows": lambda s: s.topics(topic("foo", FOO, 7)),
    "the group gets a config": lambda s: s.state.group_configs.update({GROUP: {"k": "v"}}),
    "the shard is loaded again": lambda s: s.state.groups.clear(),
}


@pytest.mark.parametrize("change", ENDINGS.values(), ids=ENDINGS.keys())
def test_what_ends_a_lease(change: Callable[[Shard], object]) -> None:
    shard, validity = settled()
    change(shard)
    before = shard.state.deadlines.items()
    assert not validity.renew(shard.now.monotonic_ms)
    assert shard.state.deadlines.items() == before


def test_an_unrelated_topic_ends_nothing() -> None:
    shard, validity = settled()
    shard.topics(topic("foo", FOO), topic("bar", BAR))
    assert validity.renew(shard.now.monotonic_ms)
