"""What another assignor would have done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.pipeline import group_tables
from groupd.pipeline.fold.entry import FoldFacts
from groupd.pipeline.fold.groups import GroupsFold
from groupd.pipeline.fold.state import TopicNames
from groupd.pipeline.fold.what_if import WhatIf
from tests.pipeline.group_logs import TimedShard
from tests.pipeline.test_fold_classic import History
from tests.unit.consumer_group.harness import BAR, FOO, topic

BUILT_IN = ("uniform", "range", "roundrobin", "sticky")


def replay(
    entries: list[Any], names: Mapping[str, str], assignor: Any = "uniform"
) -> list[dict[str, Any]]:
    if isinstance(assignor, str):
        assignor = load_assignors([assignor])[assignor]
    facts, topics = FoldFacts(frozenset({"what-if"})), TopicNames(names)
    fold = GroupsFold(facts, topics, observers=[WhatIf(facts, topics, assignor, 2500.0)])
    for entry in entries:
        fold.feed(entry)
    fold.finish()
    return [row for _, row in facts.take()]


def recorded(assignor: str, *, mixed: bool = True) -> TimedShard:
    """Joins, a static restart, a leave, an expiry, growth; mixed subscriptions if asked for."""
    log = TimedShard(topic("foo", FOO, 7), topic("bar", BAR, 3), assignor=assignor)
    for member in ("a", "b", "c"):
        log.join(member, names=["foo", "bar"])
        log.settle_all(1000)
    log.join("s1", instance="static", names=["foo", "bar"])
    log.settle_all(1000)
    log.leave("s1", -2, instance="static")
    log.join("s2", instance="static", names=["foo", "bar"])
    log.settle_all(1000)
    log.leave("b")
    log.settle_all(1000)
    log.advance(60_000)
    log.topics(topic("foo", FOO, 9), topic("bar", BAR, 3))
    log.settle_all(1000)
    if mixed:
        log.join("d", names=["foo"])
        log.settle_all(1000)
        log.say("a", names=["bar"])
        log.settle_all(1000)
    return log


@pytest.mark.parametrize("assignor", BUILT_IN)
def test_the_recorded_assignor_gives_the_recorded_targets(assignor: str) -> None:
    log = recorded(assignor)
    rows = replay(log.entries(), log.names(), assignor)
    assert len(rows) == log.group.group_epoch - 1
    assert [row["same_assignment"] for row in rows] == [True] * len(rows)
    for row in rows:
        assert list(row) == group_tables.WHAT_IF.fieldNames()
        for what in ("moved", "min", "max", "stddev", "unowned_ms"):
            assert row[f"simulated_{what}"] == row[f"recorded_{what}"], what


def test_another_assignor_moves_more_and_balances_worse() -> None:
    log = recorded("uniform", mixed=False)
    rows = replay(log.entries(), log.names(), "range")
    assert not all(row["same_assignment"] for row in rows)
    assert sum(row["simulated_moved"] for row in rows) > sum(row["recorded_moved"] for row in rows)
    assert sum(row["recorded_needless"] for row in rows) == 0
    assert sum(row["simulated_needless"] for row in rows) > 0
    worst = max(row["simulated_max"] - row["simulated_min"] for row in rows)
    assert worst > max(row["recorded_max"] - row["recorded_min"] for row in rows)


class EverythingToOne:
    name = "everything-to-one"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        first = min(spec.members)
        return {
            first: {
                one: tuple(range(topics.num_partitions(one)))
                for one in sorted(spec.members[first].topic_ids)
            }
        }


class Greedy(EverythingToOne):
    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        if len(spec.members) > 2:
            raise ValueError("too many")
        return super().assign(spec, topics)


def test_a_custom_assignor() -> None:
    log = recorded("uniform", mixed=False)
    rows = replay(log.entries(), log.names(), EverythingToOne())
    assert {row["status"] for row in rows} == {"ok"}
    assert [row["simulated_max"] for row in rows] == [row["partitions"] for row in rows]
    assert [row["simulated_moved"] for row in rows] == [0] * len(rows)


def test_an_assignor_that_fails_has_a_row_and_the_next_one_goes_on() -> None:
    log = recorded("uniform", mixed=False)
    rows = replay(log.entries(), log.names(), Greedy())
    failed = [row for row in rows if row["members"] > 2]
    assert {row["status"] for row in failed} == {"failed: ValueError: too many"}
    assert {row["simulated_moved"] for row in failed} == {None}
    assert {row["status"] for row in rows if row["members"] <= 2} == {"ok"}


def test_the_unowned_time_is_that_of_the_moves_that_happened() -> None:
    log = TimedShard(topic("foo", FOO, 6))
    log.join("a")
    log.settle_all()
    log.join("b")
    for member, after_ms in (("a", 1000), ("a", 1000), ("b", 4000)):
        log.advance(after_ms)
        log.say(member)
    first, second = replay(log.entries(), log.names(), EverythingToOne())
    assert (first["unowned_model"], first["simulated_unowned_ms"]) == ("default", 0)
    assert (second["recorded_unowned_ms"], second["unowned_per_move_ms"]) == (12_000, 4000.0)
    assert (second["unowned_model"], second["simulated_unowned_ms"]) == ("rebalance", 0)


def test_classic_generations_through_a_server_side_assignor() -> None:
    history = History()
    history.generation(1, 0, {"a": (0, 1, 2, 3)})
    history.generation(2, 10, {"a": (0, 1), "b": (2, 3)})
    history.generation(3, 20, {"a": (2, 3), "b": (0, 1)})
    rows = replay(history.entries, {}, "uniform")
    assert [row["simulated_moved"] for row in rows] == [0, 2, 0]
    assert [row["recorded_moved"] for row in rows] == [0, 2, 4]
