"""Random lives of a group: what the fold says in the end is what the core holds."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from groupd.pipeline.fold.state import AWAY
from groupd.pipeline.values import topic_id_text
from groupd.protocol.errors import ApiError
from tests.pipeline.group_logs import TimedShard, facts_of
from tests.support.examples import examples
from tests.unit.consumer_group.harness import BAR, FOO, topic

DYNAMIC, STATIC = ("a", "b", "c", "d"), ("i", "j")
NAMES = (["foo"], ["foo", "bar"], ["bar"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from(DYNAMIC), st.sampled_from(NAMES)),
        st.tuples(st.just("join"), st.sampled_from(STATIC), st.just(NAMES[0])),
        st.tuples(st.just("say"), st.integers(0, 5), st.none()),
        st.tuples(st.just("say"), st.integers(0, 5), st.sampled_from(NAMES)),
        st.tuples(st.just("leave"), st.integers(0, 5), st.none()),
        st.tuples(st.just("vanish"), st.integers(0, 5), st.none()),
        st.tuples(st.just("advance"), st.sampled_from((0, 900, 20_000, 46_000)), st.none()),
        st.tuples(st.just("grow"), st.integers(1, 3), st.none()),
    ),
    min_size=5,
    max_size=40,
)


class Story:
    """Carries the steps out; what the core refuses did not happen."""

    def __init__(self) -> None:
        self.world = TimedShard(topic("foo", FOO, 5), topic("bar", BAR, 2))
        self.ids = 0
        self.instances: dict[str, str] = {}
        self.partitions = 5

    def run(self, kind: str, what: Any, names: Any) -> None:
        world = self.world
        present = sorted(world.told)
        if kind == "join":
            self._join(what, names)
        elif kind == "advance":
            world.advance(what)
            world.fire()
        elif kind == "grow":
            self.partitions += what
            world.advance(60_000)
            world.topics(topic("foo", FOO, self.partitions), topic("bar", BAR, 2))
        elif present:
            member = present[what % len(present)]
            self._existing(kind, member, names)

    def _join(self, what: str, names: list[str]) -> None:
        self.ids += 1
        member = f"{what}{self.ids}"
        fields: dict[str, Any] = {"names": names, "client_id": what}
        if what in STATIC:
            fields["instance"] = what
            self.instances[member] = what
        try:
            self.world.join(member, **fields)
        except ApiError:
            del self.world.told[member]

    def _existing(self, kind: str, member: str, names: Any) -> None:
        instance = self.instances.get(member)
        fields: dict[str, Any] = {} if instance is None else {"instance": instance}
        try:
            if kind == "say":
                self.world.say(member, names=names, **fields)
            elif kind == "leave":
                self.world.leave(member, -1 if instance is None else -2, **fields)
            else:
                del self.world.told[member]
        except ApiError:
            self.world.told.pop(member, None)


@examples(150, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_the_fold_ends_where_the_core_ends(plan: list[tuple[str, Any, Any]]) -> None:
    story = Story()
    for step in plan:
        story.run(*step)
    world = story.world
    if not world.log:
        return
    found = facts_of(world.entries(), world.names())
    group, rebalances = world.group, found["rebalances"]
    assert sorted(row["epoch"] for row in rebalances) == list(range(2, group.group_epoch + 1))
    assert {
        (row["topic_id"], row["partition"], row["member_id"], row["revoking_since"] is not None)
        for row in found["ownership"]
        if row["until"] is None
    } == {
        (topic_id_text(topic_id), partition, member_id, held is member.pending_revocation)
        for member_id, member in group.members.items()
        for held in (member.assigned, member.pending_revocation)
        for topic_id, partitions in held.items()
        for partition in partitions
    }
    living = {row["member_id"]: row for row in found["members"] if row["ended"] is None}
    assert living.keys() == group.members.keys()
    for member_id, member in group.members.items():
        row = living[member_id]
        assert row["subscribed_topics"] == list(member.subscribed_topic_names)
        assert member.member_epoch < 0 or row["last_epoch"] == member.member_epoch
    _check_rebalances(rebalances, found, group)


def _check_rebalances(
    rebalances: list[dict[str, Any]], found: dict[str, list[dict[str, Any]]], group: Any
) -> None:
    away = {
        row["member_id"]
        for row in found["member_epochs"]
        if row["until"] is None and row["state"] == AWAY
    }
    for row in rebalances:
        assert row["complete_history"]
        assert row["members_after"] - row["members_before"] == len(
            set(row["joined"]) - set(row["left"])
        ) - len(set(row["left"]) - set(row["joined"]))
        if row["minimal_method"] == "exact" and row["target_at"] is not None:
            # The assignor is `uniform`, which never moves more than it must.
            assert row["needless"] == 0, row
    last = max(rebalances, key=lambda row: int(row["epoch"]), default=None)
    if last is not None and not away:
        stable = group.state_name() in ("Stable", "Empty")
        assert (last["status"] in ("completed", "emptied")) == stable


def test_the_property_sees_what_it_claims() -> None:
    """Its stories have rebalances, expiries and replaced members, not only refusals."""
    story = Story()
    for step in (
        ("join", "a", NAMES[1]),
        ("join", "i", NAMES[0]),
        ("say", 0, None),
        ("leave", 1, None),
        ("join", "i", NAMES[0]),
        ("vanish", 0, None),
        ("advance", 46_000, None),
    ):
        story.run(*step)
    found = facts_of(story.world.entries(), story.world.names())
    ended = sorted(row["ended_by"] for row in found["members"] if row["ended_by"])
    assert ended == ["removed", "removed", "replaced"]
