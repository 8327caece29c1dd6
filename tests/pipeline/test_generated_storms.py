"""Generated groups that start or restart member by member have no storm; those whose members are
thrown out again and again have one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest

from groupd.pipeline.fold.entry import FoldEntry, FoldFacts
from groupd.pipeline.fold.findings import STORM, Thresholds
from groupd.pipeline.fold.groups import GroupsFold
from groupd.pipeline.fold.health import HealthFold
from groupd.pipeline.fold.state import TopicNames
from groupd.pipeline.generator.command import UNTIL_MS, Options, plan_world
from groupd.pipeline.generator.demo import demo_world
from groupd.pipeline.generator.members import steps_of
from groupd.pipeline.generator.script import Act, GeneratedWorld, GroupPlan
from groupd.protocol.records.codec import decode_record
from tests.pipeline.group_logs import entry_of

RESTARTED = ("steady", "busy", "rolling", "static", "classic")
STORMY = ("storm", "classic-storm")
WORLD, PLANS = plan_world(Options(records=1_500_000, groups=150, seed=15))


def entries(plan: GroupPlan, world: GeneratedWorld) -> Iterator[FoldEntry]:
    offset = 0
    for step in steps_of(plan, world, Random(7)):
        for key, value in step.records:
            yield entry_of(offset, step.at_ms, decode_record(key, value))
            offset += 1


def storms(plan: GroupPlan, world: GeneratedWorld, **limits: int) -> list[dict[str, object]]:
    facts, topics = FoldFacts(frozenset({"findings"})), TopicNames({})
    health = HealthFold(facts, topics, Thresholds(**limits), {}, world.end_ms)
    fold = GroupsFold(facts, topics, observers=[health])
    for entry in entries(plan, world):
        fold.feed(entry)
    fold.finish()
    return [row for _, row in facts.take() if row["finding"] == STORM]


def plans_of(profile: str) -> list[GroupPlan]:
    found = [plan for plan in PLANS if plan.name.split("-", 1)[1].rsplit("-", 1)[0] == profile]
    assert found, f"no group of the profile {profile} was planned"
    return found


@pytest.mark.parametrize("profile", RESTARTED)
def test_groups_that_are_deployed_have_no_storm(profile: str) -> None:
    assert {plan.name: found for plan in plans_of(profile) if (found := storms(plan, WORLD))} == {}


def test_rolling_groups_have_as_many_rebalances_as_a_storm() -> None:
    """So the test above would fail if rebalances were only counted."""
    counted = [len(storms(plan, WORLD, storm_repeats=1)) for plan in plans_of("rolling")]
    assert all(counted)
    assert sum(counted) > 10


@pytest.mark.parametrize("profile", STORMY)
def test_storms_are_found_with_the_members_that_cause_them(profile: str) -> None:
    for plan in plans_of(profile):
        thrown_out = {op.member for op in plan.ops if op.act is Act.FENCE}
        stormy = sum(op.act is Act.FENCE for op in plan.ops) >= 8
        found = storms(plan, WORLD)
        assert bool(found) == stormy, plan.name
        for row in found:
            clients = json.loads(str(row["evidence"]))["facts"]["clients"]
            numbers = {int(one["client_id"].rsplit("-", 1)[1]) for one in clients}
            assert numbers <= thrown_out
            assert 0.4 < clients[0]["share"] <= 1
            assert f"{clients[0]['client_id']} at {clients[0]['client_host']}" in str(
                row["summary"]
            )


def test_the_demo_has_one_storm_and_names_its_clients() -> None:
    world, plans = demo_world(UNTIL_MS)
    found = {plan.name: storms(plan, world) for plan in plans}
    assert [name for name, rows in found.items() if rows] == ["recommendations"]
    (row,) = found["recommendations"]
    clients = json.loads(str(row["evidence"]))["facts"]["clients"]
    assert [one["client_id"] for one in clients[:1]] == ["recommendations-0"]
    assert {one["client_id"] for one in clients} == {f"recommendations-{n}" for n in (0, 1, 3)}
