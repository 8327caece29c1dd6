"""Regular expressions: what the scenarios of `consumer_regex` do not show."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.regex import check_compiles
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.partitioning import COMPACTED_TOPIC
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import ConsumerGroupRegexKey, ConsumerGroupRegexValue
from tests.unit.consumer_group.harness import (
    BAR,
    BAZ,
    FOO,
    GROUP,
    Shard,
    replayed,
    snapshot,
    topic,
)

FOO_TOPIC, BAR_TOPIC = topic("foo", FOO), topic("bar", BAR, 2)


def resolved(shard: Shard, pattern: str) -> ConsumerGroupRegexValue:
    value = shard.group.regexes.get(pattern)
    assert value is not None
    return value


def subscribed() -> Shard:
    """m1 with foo*, resolved."""
    shard = Shard(FOO_TOPIC, BAR_TOPIC)
    shard.beat(0, regex="foo*")
    shard.finish_task()
    shard.beat(1)
    return shard


def test_without_the_library_an_expression_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """google-re2 has no wheel for every Python."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ApiError, match="pip install google-re2") as refused:
        check_compiles("foo*")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_is_resolved_once_and_written_behind_the_join() -> None:
    shard = Shard(FOO_TOPIC, BAR_TOPIC)
    shard.beat(0, regex="foo*")
    asked = shard.outcome
    shard.beat(1)
    assert shard.outcome.tasks == []
    shard.outcome = asked
    shard.finish_task()
    assert shard.outcome.gate == GROUP
    assert shard.group.is_subscribed_to("foo")
    shard.beat(1)
    assert shard.outcome.tasks == []
    assert snapshot(replayed(shard)) == snapshot(shard.state)


def test_nothing_holds_back_the_resolution_of_another_expression() -> None:
    shard = subscribed()
    shard.beat(2, regex="bar*", owned={})
    assert not shard.group.is_subscribed_to("foo")
    # The last resolution is recent; with its expression gone, nothing holds the next one back.
    assert shard.outcome.tasks == []
    shard.beat(2)
    assert len(shard.outcome.tasks) == 1


def test_versions_that_were_counted_otherwise_say_nothing() -> None:
    """The store of a single daemon, whose versions count from wall milliseconds, is now that of a
    cluster, whose versions count changes."""
    shard = Shard(FOO_TOPIC)
    by_clock = MetadataImage([FOO_TOPIC], 1_700_000_000_000)
    shard.state.image = by_clock
    shard.beat(0, regex="foo.*")
    shard.finish_task()
    shard.beat(1)
    epoch = shard.group.group_epoch
    shard.state.image = MetadataImage([FOO_TOPIC], 7, 3)
    shard.advance(10_001)
    shard.beat(2)
    shard.finish_task()
    # The result is the same, so nothing else happens, and once is enough.
    assert (shard.shape(), shard.group.group_epoch) == (["R16"], epoch)
    shard.advance(10_001)
    shard.beat(2)
    assert shard.outcome.tasks == []
    shard.state.image = by_clock
    shard.beat(2)
    assert len(shard.outcome.tasks) == 1


def test_match_is_whole_name_case_sensitive_and_sees_internal_topics() -> None:
    internal = type(FOO_TOPIC)(BAZ, "__internal", 1, internal=True)
    # Not the compacted view: it is the log of __consumer_offsets once more.
    view = type(FOO_TOPIC)(bytes(15) + b"v", COMPACTED_TOPIC, 1, internal=True)
    shard = Shard(FOO_TOPIC, topic("Foo", BAR), internal, view)
    shard.beat(0, regex="fo.|__.*|oo")
    shard.finish_task()
    assert resolved(shard, "fo.|__.*|oo").topics == ("__internal", "foo")


def test_failed_or_homeless_resolution_leads_to_nothing() -> None:
    shard = Shard(FOO_TOPIC)
    shard.beat(0, regex="foo*")
    asked = shard.outcome
    outcome = shard.finish_task(ValueError("boom"))
    assert (outcome.records, outcome.events[0].kind) == ([], EventKind.REGEX_FAILED)
    shard.beat(1)
    assert len(shard.outcome.tasks) == 1
    shard.state.groups.clear()
    shard.outcome = asked
    assert shard.finish_task().records == []


def test_partitions_of_a_member_whose_new_expression_matches_nothing_go_to_another() -> None:
    """The topic stays subscribed by name, so that its metadata hash tells nothing."""
    shard = Shard(BAR_TOPIC)
    shard.beat(0, regex="bar*")
    shard.finish_task()
    epoch = shard.beat(1).member_epoch
    shard.beat(0, "m2", names=("bar",))
    shard.beat(epoch, owned={BAR: (0, 1)})
    epoch = shard.beat(epoch, owned={BAR: (0,)}).member_epoch
    shard.beat(epoch, "m2")
    assert [len(shard.group.targets[one][BAR]) for one in ("m1", "m2")] == [1, 1]

    shard.advance(10_001)
    shard.beat(epoch, regex="none*", owned={})
    shard.finish_task()
    assert shard.shape() == ["R16", "R3"]
    shard.beat(epoch, "m2")
    assert sorted(shard.group.targets["m2"][BAR]) == [0, 1]
    assert not shard.group.targets.get("m1")


def test_leaving_drops_an_expression_with_its_last_member() -> None:
    shard = subscribed()
    shard.beat(0, "m2", regex="foo*")
    shard.beat(-1, "m1")
    assert shard.shape() == ["T8", "T7", "T5", "R3"]
    shard.beat(-1, "m2")
    assert shard.shape() == ["T8", "T7", "T5", "T16", "R3", "R6"]
    assert shard.group.metadata_hash == 0


def test_loaded_unusable_expression_matches_nothing() -> None:
    shard = Shard(FOO_TOPIC)
    shard.put_member("m1", subscribed_topic_names=(), subscribed_topic_regex="[")
    shard.settle(m1={})
    shard.beat(10)
    found: Any = run_through(shard.outcome.tasks[0].steps())
    assert found["["].topics == ()
    shard.finish_task()
    assert shard.outcome.records[0].key == ConsumerGroupRegexKey(GROUP, "[")


def test_an_expression_that_matches_nothing_frees_what_its_member_had() -> None:
    """Kafka leaves the partitions without an owner until something else bumps the epoch."""
    shard = Shard(FOO_TOPIC)
    shard.beat(0, "m1", regex="foo.*")
    shard.finish_task()
    shard.beat(0, "m2", regex="foo.*")
    shard.advance(11_000)
    shard.beat(shard.group.members["m1"].member_epoch, "m1", owned=())
    before = shard.group.group_epoch
    shard.beat(shard.group.members["m1"].member_epoch, "m1", regex="none.*")
    shard.finish_task()
    assert resolved(shard, "none.*").topics == ()
    assert shard.group.group_epoch == before + 1


def test_a_join_with_names_only_has_no_expression_any_more() -> None:
    """Clients leave the null out when they join again after an answer that they did not get."""
    shard = subscribed()
    assert shard.group.members["m1"].subscribed_topic_regex == "foo*"
    shard.beat(0, names=["bar"])
    member = shard.group.members["m1"]
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("bar",), "")
    shard.beat(0, regex="foo*")
    member = shard.group.members["m1"]
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == ((), "foo*")
