"""Groups that change their protocol: the fold ends where the core's replay ends, and tells it."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.pipeline.values import topic_id_text
from groupd.protocol.consumer_protocol import parse_assignment
from tests.pipeline.group_logs import entry_of, facts_of
from tests.support.examples import examples
from tests.unit.interop.harness import Bench
from tests.unit.interop.test_downgrade import mixed
from tests.unit.interop.test_machine import Migration
from tests.unit.interop.values import BAR, FOO, GROUP

NAMES = {topic_id_text(FOO) or "": "foo", topic_id_text(BAR) or "": "bar"}


def facts(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """The rows of the fold. The clock stands still: only the records tell operations apart."""
    at_ms = bench.now.wall_ms
    return facts_of([entry_of(n, at_ms, one) for n, one in enumerate(bench.log)], NAMES)


def held(bench: Bench) -> set[tuple[str, int, str]]:
    group = bench.replayed().groups.get(GROUP)
    if isinstance(group, ConsumerGroup):
        return {
            (NAMES[topic_id_text(topic_id) or ""], partition, member_id)
            for member_id, member in group.members.items()
            for owned in (member.assigned, member.pending_revocation)
            for topic_id, partitions in owned.items()
            for partition in partitions
        }
    assert group is None or isinstance(group, ClassicGroup)
    return {
        (topic, partition, member_id)
        for member_id, member in (group.members if group else {}).items()
        if member.assignment
        for topic, partitions in parse_assignment(member.assignment).partitions
        for partition in partitions
    }


def check(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    found = facts(bench)
    now = [row for row in found["ownership"] if row["until"] is None]
    assert {(row["topic"], row["partition"], row["member_id"]) for row in now} == held(bench)
    group = bench.replayed().groups.get(GROUP)
    living = [row for row in found["members"] if row["ended"] is None]
    members = getattr(group, "members", {})
    assert sorted(row["member_id"] for row in living) == sorted(members)
    assert {row["protocol"] for row in living} <= {group.type_name if group else ""}
    return found


class FoldedMigration(Migration):
    """The machine of the core's own tests, its log folded at the end of every story."""

    def teardown(self) -> None:
        super().teardown()
        check(self.bench)


TestFoldedMigration = FoldedMigration.TestCase
TestFoldedMigration.settings = examples(
    60, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)


def test_a_downgrade_and_an_upgrade_again() -> None:
    bench = mixed()
    bench.beat("m", -1)
    found = check(bench)
    ended = {(row["member_id"], row["protocol"]): row["ended_by"] for row in found["members"]}
    assert ended == {
        ("a", "consumer"): "converted",
        ("b", "consumer"): "converted",
        ("m", "consumer"): "left",
        ("a", "classic"): None,
        ("b", "classic"): None,
    }
    bench.beat("n", 0)
    found = check(bench)
    last = found["rebalances"][-1]
    assert (last["protocol"], last["trigger"], last["triggers"]) == (
        "consumer",
        "conversion",
        ["conversion", "join"],
    )
    assert "n joined" in last["why"]
