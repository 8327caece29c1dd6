"""The textbook rebalance of `docs/rebalance-trace.md`: what the page claims holds at every step.
That the page shows this very trace is checked with the other generated pages."""

from __future__ import annotations

from docs.rebalance_trace import TOPIC, Step, partitions_waited_for, steps
from groupd.protocol.records.schema import ConsumerGroupCurrentMemberKey

STORY = list(steps())
BEFORE = {"C1": {0, 1}, "C2": {2, 3}, "C3": set[int]()}


def held(step: Step, member: str, *keys: str) -> set[int]:
    (shown,) = [one for one in step.group["members"] if one["member_id"] == member]
    return {number for key in keys for number in shown[key].get(TOPIC, [])}


def test_the_story_begins_and_ends_as_told() -> None:
    first, last = STORY[0], STORY[-1]
    assert {one: held(first, one, "owned") for one in BEFORE} == BEFORE
    assert {one: held(last, one, "owned") for one in BEFORE} == {"C1": {0, 1}, "C2": {2}, "C3": {3}}
    assert [step.group["state"] for step in STORY] == ["Reconciling"] * 6 + ["Stable"] * 2
    assert all(one["member_epoch"] == 4 for one in last.group["members"])


def test_nobody_ever_loses_what_it_keeps() -> None:
    for step in STORY:
        assert held(step, "C1", "owned") == {0, 1}
        assert 2 in held(step, "C2", "owned")


def test_no_partition_has_two_owners_and_one_to_be_revoked_has_still_its_own() -> None:
    for step in STORY:
        holders = [held(step, one, "owned", "pending_revocation") for one in BEFORE]
        assert sum(map(len, holders)) == len(set().union(*holders))


def test_c3_gets_p3_only_after_c2_said_that_it_released_it() -> None:
    released = [n for n, s in enumerate(STORY) if s.member == "C2" and s.owns == (2,)]
    given = [n for n, s in enumerate(STORY) if s.member == "C3" and 3 in held(s, "C3", "owned")]
    asked = [n for n, s in enumerate(STORY) if s.member == "C3"]
    assert asked[:3] == [0, 2, 4]
    assert released == [5]
    assert given[0] == 6
    for step in STORY[:5]:
        (entry,) = partitions_waited_for(step.group)
        assert (entry["member_id"], entry["partition"], entry["held_by"]) == ("C3", 3, "C2")
    revoking = [partitions_waited_for(step.group)[0]["revoking"] for step in STORY[:5]]
    assert revoking == [False] * 3 + [True] * 2
    assert all(not partitions_waited_for(step.group) for step in STORY[5:])
    assert [step.group["state"] == "Stable" for step in STORY] == [
        not step.group["blocked"] for step in STORY
    ]


def test_revocation_runs_against_the_rebalance_timeout() -> None:
    (entry,) = [e for e in STORY[3].group["deadlines"] if e["kind"] == "consumer-rebalance"]
    assert (entry["member_id"], entry["in_ms"]) == ("C2", 60_000)
    assert not [e for e in STORY[5].group["deadlines"] if e["kind"] == "consumer-rebalance"]


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    assert [bool(step.records) for step in STORY] == [True] * 4 + [False, True, True, False]
    for step in STORY[1:]:
        assert all(type(one.key) is ConsumerGroupCurrentMemberKey for one in step.records)
