"""What `/groups/{id}/share` shows of the records of a share group."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from msgspec import json

from groupd.coordinator.admin.pages import json_steps
from groupd.coordinator.admin.share_pages import RANGES_SHOWN, SharePages
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.lag.share_offsets import SharePosition
from groupd.coordinator.topics.layout import NO_LEADER
from groupd.protocol.messages.share_fetch import REJECT, RELEASE
from tests.unit.share_partitions.share_world import GROUP, LOCK_MS, acked


@pytest.fixture
def page(world):
    """Makes the page; `positions` by partition of `foo`."""

    def made(positions=(), after=None, limit=100):
        state = Mock(
            image=world.plane.catalogue.image,
            config=world.cluster.config,
            group_configs={GROUP: world.plane.group_overrides.all()[GROUP]},
        )
        group = Mock(spec=ShareGroup, group_id=GROUP, members={}, type_name="share")
        offsets = Mock(starts=lambda *_: [None, 7])
        pages = SharePages(world.shares, offsets, world.plane)
        found = {"foo": {number: SharePosition(9, 0, start) for number, start in positions}}
        now = world.clock.now()
        return run_through(pages.page(state, group, found, now, after, limit))

    return made


def row(shown, partition=0):
    return next(one for one in shown[0]["partitions"] if one["partition"] == partition)


async def test_who_holds_what_and_for_how_long(world, foo, page):
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    world.advance(4000)
    await member.acknowledge(1, {(foo, 0): [acked(0, 1), acked(4, 4, REJECT)]})
    shown = row(page())
    assert (shown["start_offset"], shown["end_offset"], shown["next_offset"]) == (2, 9, 10)
    assert (shown["locked"], shown["waiting"], shown["finished"]) == (7, 0, 1)
    held = {"member_id": "m1", "held_ms": 4000, "lock_left_ms": LOCK_MS - 4000, "why": None}
    held |= {"state": "acquired", "delivery_count": 1, "write_pending": False}
    over = dict.fromkeys(("member_id", "held_ms", "lock_left_ms"))
    over |= {"state": "archived", "delivery_count": 1, "write_pending": False, "why": "rejected"}
    assert shown["in_flight"] == [
        {"first_offset": 2, "last_offset": 3, **held},
        {"first_offset": 4, "last_offset": 4, **over},
        {"first_offset": 5, "last_offset": 9, **held},
    ]


async def test_how_often_records_were_delivered_and_why_they_are_given_up(world, foo, page):
    await world.set_configs(share_auto_offset_reset="earliest", share_delivery_count_limit="2")
    await world.produce_records(2)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    await member.acknowledge(1, {(foo, 0): [acked(0, 0), acked(1, 1, RELEASE)]})
    assert [
        (one["first_offset"], one["state"], one["delivery_count"])
        for one in row(page())["in_flight"]
    ] == [(1, "available", 1)]
    await member.fetch(2)
    world.advance(LOCK_MS)
    await world.settle()
    shown, _ = page()
    assert shown["delivery_count_limit"] == 2
    names = ("first_offset", "what", "why", "delivery_count")
    assert [tuple(one[name] for name in names) for one in shown["events"]] == [
        (0, "accepted", "", 1),
        (1, "released", "", 1),
        (1, "archived", "delivery limit", 2),
    ]
    assert {(one["topic"], one["partition"]) for one in shown["events"]} == {("foo", 0)}


async def test_other_nodes_partitions_have_only_their_start_offsets(world, foo, page):
    shown = row(page([(1, 42)]), 1)
    assert (shown["start_offset"], shown["starts"]) == (42, [None, 7])
    assert shown["locked"] is None
    assert shown["in_flight"] == []


async def test_the_leader_knows_the_start_offset_first(world, foo, page):
    await world.produce_records(3)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    await member.acknowledge(1, {(foo, 0): [acked(0, 2)]})
    assert row(page([(0, 0)]))["start_offset"] == 3


async def test_pages_follow_each_other(world, foo, page):
    positions = [(number, 1) for number in range(3)]
    shown, more = page(positions, limit=2)
    assert ([one["partition"] for one in shown["partitions"]], more) == ([0, 1], True)
    shown, more = page(positions, after=("foo", 1), limit=2)
    assert ([one["partition"] for one in shown["partitions"]], more) == ([2], False)
    assert set(shown) == {"group_id", "partitions"}


async def test_the_limit_is_one_of_partitions(world, foo, page):
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    await member.acknowledge(1, {(foo, 0): [acked(one, one) for one in range(0, 10, 2)]})
    shown, _ = page([(number, 1) for number in range(3)], limit=1)
    encoded = run_through(json_steps(shown, 1))
    assert encoded.cut == {}
    read = json.decode(encoded.body)
    assert (len(read["partitions"]), len(read["times_ms"]), len(read["events"])) == (1, 60, 5)


async def test_partitions_name_their_leaders(world, foo, page, monkeypatch):
    layout = world.plane.layout
    monkeypatch.setattr(layout, "leader", lambda topic, partition: (0, 7, NO_LEADER)[partition])
    shown, _ = page([(number, 1) for number in range(3)])
    assert [one["leader"] for one in shown["partitions"]] == [0, 7, None]


async def test_of_many_ranges_the_first_and_the_most_delivered_are_shown(world, foo, page):
    count = 40 * RANGES_SHOWN
    await world.produce_records(count)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    released = [acked(offset, offset, RELEASE) for offset in range(1, count, 2)]
    await member.acknowledge(1, {(foo, 0): released})
    other = world.connect("m2")
    await other.fetch(0, (foo, 0), max_records=1, batch_size=1)
    shown = row(page())
    assert len(shown["in_flight"]) == RANGES_SHOWN
    assert shown["left_out"] == count - RANGES_SHOWN
    assert (shown["locked"], shown["waiting"]) == (count, 0)
    first, again, *_ = shown["in_flight"]
    assert (first["first_offset"], again["first_offset"], again["delivery_count"]) == (0, 1, 2)
