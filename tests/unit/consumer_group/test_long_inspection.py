"""A group with many members is shown piece by piece, and says the same."""

from __future__ import annotations

import json

import pytest

from groupd.coordinator.admin.pages import json_steps
from groupd.coordinator.core.inspection import inspect_group_lazily
from groupd.coordinator.core.slices import SLICE_ITEMS, WORK_ITEMS, run_through
from tests.support.inspected import inspect_group
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic


def test_a_long_group_is_the_same_piece_by_piece() -> None:
    shard = Shard(topic("foo", FOO, 6))
    shard.put_member("m0", assigned={FOO: {0: 10, 1: 10}})
    for number in range(1, 3 * SLICE_ITEMS):
        shard.put_member(f"m{number}")
    shard.settle(10, m0={FOO: (0,)}, m1={FOO: (1,)})
    whole = inspect_group(shard.state, GROUP, shard.now)
    assert whole is not None
    assert [one["held_by"] for one in whole["blocked"]] == ["m0"]
    lazily = inspect_group_lazily(shard.state, GROUP, shard.now)
    assert json.loads(run_through(json_steps(lazily)).body) == whole


def test_members_behind_one_are_a_page_of_their_own() -> None:
    shard = Shard(topic("foo", FOO, 6))
    for number in range(9):
        shard.put_member(f"m{number}")
    shard.settle(10)
    lazily = inspect_group_lazily(shard.state, GROUP, shard.now, "m6")
    assert lazily is not None
    page = run_through(json_steps({"members": lazily["members"]}, 1))
    assert [one["member_id"] for one in json.loads(page.body)["members"]] == ["m7"]
    assert [(name, last["member_id"]) for name, last in page.cut.items()] == [("members", "m7")]


def test_members_that_wait_for_nothing_are_looked_at_with_stops() -> None:
    shard = Shard(topic("foo", FOO, 6))
    for number in range(4 * WORK_ITEMS):
        shard.put_member(f"m{number}")
    shard.settle(10)
    lazily = inspect_group_lazily(shard.state, GROUP, shard.now)
    assert lazily is not None
    blocked = list(lazily["blocked"])
    assert set(blocked) == {None}
    assert len(blocked) >= 4


@pytest.mark.slow
def test_whoever_holds_what_others_want_is_looked_up_with_stops() -> None:
    shard = Shard(topic("foo", FOO, 6))
    shard.put_member("m0", assigned={FOO: {0: 10, 1: 10}})
    for number in range(1, 2 * WORK_ITEMS):
        shard.put_member(f"m{number}")
    shard.settle(10, m0={FOO: (0,)}, m1={FOO: (1,)})
    lazily = inspect_group_lazily(shard.state, GROUP, shard.now)
    assert lazily is not None
    blocked = list(lazily["blocked"])
    assert blocked.count(None) >= 2 * 2
    assert [one["member_id"] for one in blocked if one is not None] == ["m1"]
