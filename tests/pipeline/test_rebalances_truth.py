"""`rebalances` against a list that was written down by hand, while real clients did it.

The clock stands still but for a second between two acts. After each act the coordinator is asked
who owns what; what moved is the difference of two such answers, not something read from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from groupd.pipeline.job import Inputs
from groupd.pipeline.jobs import members, rebalances, what_if
from groupd.protocol.records.batch_builder import encode_batch
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, MemberProcess
from tests.pipeline.entries import entries_of, inputs_of

pytestmark = pytest.mark.timeout(300)  # starting Spark on a busy machine takes its time

SECOND, SESSION_MS, GROUP = 1000, 45_000, "billing"
Owned = dict[tuple[str, int], str]


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.clock.freeze()
    groupd.create_topic("orders", 6)
    groupd.create_topic("refunds", 2)
    return groupd


@dataclass
class Diary:
    """Writes down what happened, as the one who did it saw it."""

    c: GroupCoordinator
    rows: list[dict[str, Any]] = field(default_factory=list)
    owned: Owned = field(default_factory=dict)
    members: set[str] = field(default_factory=set)

    def act(
        self, trigger: str | None, do: Callable[[], object], wait: Callable[[], object]
    ) -> None:
        """One act that causes one rebalance, or (`trigger` None) none."""
        self.c.clock.advance(SECOND)
        do()
        wait()
        owned, present = self._now()
        if trigger is not None:
            moved = {
                place: (self.owned[place], owner)
                for place, owner in owned.items()
                if self.owned.get(place, owner) != owner
            }
            self.rows.append(
                {
                    "trigger": trigger,
                    "joined": sorted(present - self.members),
                    "left": sorted(self.members - present),
                    "members_before": len(self.members),
                    "members_after": len(present),
                    "moved": {(*place, *who) for place, who in moved.items()},
                    "gained": {(*place, owned[place]) for place in owned.keys() - self.owned},
                    "lost": set(self.owned) - set(owned),
                }
            )
        self.owned, self.members = owned, present

    def _now(self) -> tuple[Owned, set[str]]:
        group = self.c.describe(GROUP)
        assert group is not None
        owned = {
            (topic, partition): member["member_id"]
            for member in group["members"]
            for topic, partitions in member["owned"].items()
            for partition in partitions
        }
        return owned, {member["member_id"] for member in group["members"]}


def inputs(spark: SparkSession, c: GroupCoordinator, names: dict[str, str]) -> Inputs:
    logs: dict[int, list[bytes]] = {}
    for one in c.records("__consumer_offsets"):
        batch = encode_batch(one.offset, 0, one.timestamp_ms, [(one.key, one.value)])
        logs.setdefault(one.partition, []).append(batch)
    topics = [(topic_id, name, None) for topic_id, name in names.items()]
    return inputs_of(spark, entries_of(spark, logs), topics)


def told(given: Inputs) -> list[dict[str, Any]]:
    """The tables in the shape of the diary."""
    result = rebalances.JOB.build(given, rebalances.JOB.options)
    rows = sorted(result["rebalances"].frame.collect(), key=lambda row: row.log_offset)
    moves = result["rebalance_moves"].frame.collect()
    found = []
    for row in rows:
        mine = [move for move in moves if move.epoch == row.epoch]
        of = {kind: [m for m in mine if m.kind == kind] for kind in ("moved", "gained", "lost")}
        assert [row.moved, row.gained, row.lost] == [len(of[kind]) for kind in of]
        found.append(
            {
                "trigger": row.trigger,
                "joined": row.joined,
                "left": row.left,
                "members_before": row.members_before,
                "members_after": row.members_after,
                "moved": {(m.topic, m.partition, m.from_member, m.to_member) for m in of["moved"]},
                "gained": {(m.topic, m.partition, m.to_member) for m in of["gained"]},
                "lost": {(m.topic, m.partition) for m in of["lost"]},
            }
        )
    assert {row.status for row in rows} <= {"completed", "emptied"}
    assert [row.triggers for row in rows] == [[row.trigger] for row in rows]
    return found


def topic_ids(c: GroupCoordinator) -> dict[str, str]:
    """The names of topics by id, from the metadata that clients get."""
    admin = AdminClient({"bootstrap.servers": c.bootstrap_servers})
    found = {}
    asked = admin.describe_topics(TopicCollection(["orders", "refunds"]))
    for name, future in asked.items():
        topic_id = future.result(10).topic_id
        halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
        found[str(UUID(bytes=pack(">qq", *halves)))] = name
    return found


def stable(c: GroupCoordinator, count: int) -> Callable[[], object]:
    return lambda: c.wait_stable(GROUP, members=count)


def owning(c: GroupCoordinator, members: int, partitions: int) -> Callable[[], object]:
    """A function that waits until so many members are stable with so many partitions."""

    def wait() -> None:
        while True:
            seen = c.rebalances(GROUP)
            group = c.wait_stable(GROUP, members=members)
            if sum(len(p) for one in group["members"] for p in one["owned"].values()) == partitions:
                return
            c.wait_rebalances(GROUP, seen + 1)

    return wait


def commit_regularly(c: GroupCoordinator, partition: int) -> None:
    """Four records a second apart, each one read and committed by whoever has the partition."""
    for number in range(1, 5):
        c.clock.advance(SECOND)
        c.produce("orders", [{"value": "v", "partition": partition}])
        c.wait_committed(GROUP, "orders", partition, number)


def test_consumer_protocol(spark: SparkSession, c: GroupCoordinator) -> None:
    diary, where = Diary(c), c.bootstrap_servers
    with ExitStack() as stack:
        a = Member(where, GROUP)
        diary.act("join", lambda: stack.enter_context(a), stable(c, 1))
        b = Member(where, GROUP)
        diary.act("join", lambda: stack.enter_context(b), stable(c, 2))
        first = set(diary.members)
        started: list[MemberProcess] = []

        def start(**extra: Any) -> None:
            started.append(stack.enter_context(MemberProcess(where, GROUP, **extra)))

        diary.act("join", start, stable(c, 3))
        started.pop().kill()
        diary.act("removal", lambda: c.clock.advance(SESSION_MS), stable(c, 2))

        auto = {"enable.auto.commit": True, "auto.commit.interval.ms": 20}
        diary.act("join", lambda: start(**auto), stable(c, 3))
        (busy,) = diary.members - first
        commit_regularly(c, next(n for (_, n), owner in diary.owned.items() if owner == busy))
        started.pop().kill()
        diary.act("expiry", lambda: c.clock.advance(SESSION_MS), stable(c, 2))

        static = Member(where, GROUP, **{"group.instance.id": "inst"})
        diary.act("join", lambda: stack.enter_context(static), stable(c, 3))
        (old,) = diary.members - first
        static.leave()
        again = Member(where, GROUP, **{"group.instance.id": "inst"})
        diary.act(None, lambda: stack.enter_context(again), stable(c, 3))
        (new,) = diary.members - first
        assert new != old

        admin = AdminClient({"bootstrap.servers": where})
        more = [NewPartitions("orders", 8)]
        grow = lambda: admin.create_partitions(more)["orders"].result(10)  # noqa: E731
        diary.act("metadata-change", grow, owning(c, 3, 8))
        both = ["orders", "refunds"]
        diary.act("subscription-change", lambda: b.subscribe(both), owning(c, 3, 10))
        diary.act("leave", a.leave, stable(c, 2))
        diary.act("leave", b.leave, stable(c, 1))
        again.leave()
        wait = lambda: c.wait_members(GROUP, 0)  # noqa: E731
        diary.act("expiry", lambda: c.clock.advance(SESSION_MS), wait)

    given = inputs(spark, c, topic_ids(c))
    assert told(given) == diary.rows
    assert [row["trigger"] for row in diary.rows].count("join") == 5
    rows = members.JOB.build(given, members.JOB.options)["members"].frame.collect()
    lives = {row.member_id: row for row in rows}
    assert (lives[old].ended_by, lives[old].replaced_by) == ("replaced", new)
    assert (lives[new].began_by, lives[new].instance_id) == ("replaced", "inst")
    assert (lives[busy].ended_by, lives[busy].ended_certainty) == ("expired", "likely")
    assert {row.ended_by for row in rows} == {"left", "removed", "expired", "replaced"}
    replayed = what_if.JOB.build(given, what_if.JOB.options)["what-if"].frame.collect()
    # Who gets a free partition depends on whose heartbeat comes next, which no log tells. How many
    # each gets does not.
    loads = [("ok", row.recorded_min, row.recorded_max) for row in replayed]
    assert [(row.status, row.simulated_min, row.simulated_max) for row in replayed] == loads
    assert len(replayed) == len(diary.rows) - 1


def test_classic_protocol(spark: SparkSession, c: GroupCoordinator) -> None:
    diary, where = Diary(c), c.bootstrap_servers
    eager = {"partition.assignment.strategy": "range"}
    with ExitStack() as stack:
        a = Member(where, GROUP, "classic", **eager)
        diary.act("join", lambda: stack.enter_context(a), stable(c, 1))
        b = Member(where, GROUP, "classic", **eager)
        diary.act("join", lambda: stack.enter_context(b), stable(c, 2))
        silent = MemberProcess(where, GROUP, "classic", **eager)
        diary.act("join", lambda: stack.enter_context(silent), stable(c, 3))
        silent.kill()
        diary.act("removal", lambda: c.clock.advance(SESSION_MS), stable(c, 2))
        diary.act("leave", a.leave, stable(c, 1))
        diary.act("leave", b.leave, lambda: c.wait_members(GROUP, 0))
    given = inputs(spark, c, {})
    assert told(given) == diary.rows
    rows = rebalances.JOB.build(given, rebalances.JOB.options)["rebalances"].frame.collect()
    assert {(row.started, row.duration_ms, row.assignor) for row in rows} <= {
        (None, None, "range"),
        (None, None, None),
    }
