"""Making many facts few: what is left still says the same."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from groupd.pipeline.report.make import window_ms
from groupd.pipeline.report.model import (
    LANES_MAX,
    HoldingBar,
    LifeBar,
    downsample,
    lives_in_lanes,
    merge_holdings,
    merge_marks,
)

HOUR_MS = 3_600_000


def row(client: str, joined: int, ended: int | None, instance: str | None = None) -> LifeBar:
    return LifeBar(f"{client}-{joined}", 0, instance or client, "/h", joined, ended, "left")


def test_members_that_follow_each_other_share_a_lane_and_others_do_not() -> None:
    rows = [row("a", 0, 10), row("a", 10, None), row("a", 5, 20), row("b", 3, None)]
    lives = lives_in_lanes(rows, 100)
    assert [(life.member_id, life.label, life.lane) for life in lives] == [
        ("a-0", "a #1", 0),
        ("b-3", "b", 2),
        ("a-5", "a #2", 1),
        ("a-10", "a #1", 0),
    ]


def test_instance_ids_name_lanes_and_numbers_are_sorted_as_numbers() -> None:
    rows = [row("c", 0, None, f"worker-{number}") for number in (10, 2, 1)]
    lanes = {life.label: life.lane for life in lives_in_lanes(rows, 1)}
    assert lanes == {"worker-1": 0, "worker-2": 1, "worker-10": 2}


def test_more_lanes_than_fit_share_the_last_one() -> None:
    lives = lives_in_lanes([row(f"c{n}", 0, None) for n in range(LANES_MAX + 7)], 1)
    last = [life for life in lives if life.lane == LANES_MAX]
    assert len(last) == 7
    assert {life.label for life in last} == {"7 more members"}


def test_few_holdings_stay_as_they_are() -> None:
    holdings = [HoldingBar(1, 0, 5, None), HoldingBar(0, 0, 0, 3), HoldingBar(0, 1, 3, 4)]
    assert merge_holdings(holdings, 3, 1000) == [holdings[1], holdings[2], holdings[0]]


def test_many_holdings_become_few_without_new_gaps_or_overlaps() -> None:
    rng = Random(1)
    holdings = []
    for place in range(20):
        at = 0
        for number in range(500):
            length = rng.choice((3, 50, 2000))
            holdings.append(HoldingBar(place, number % 7, at, at + length))
            at += length + rng.choice((0, 0, 5))
        at += 50_000  # nobody, for long
        holdings.append(HoldingBar(place, 3, at, None))
    fewer = merge_holdings(holdings, 3000, 100)
    assert len(fewer) <= 3000
    for place in range(20):
        mine = [one for one in fewer if one.place == place]
        before = [one for one in holdings if one.place == place]
        assert mine[0].since_ms == before[0].since_ms
        assert mine[-1] == before[-1]
        gaps = []
        for one, following in pairwise(mine):
            assert one.until_ms is not None
            assert one.until_ms <= following.since_ms
            gaps.append(following.since_ms - one.until_ms)
        assert max(gaps) == 50_000 or 50_000 <= max(gaps) <= 50_005


def test_marks_that_touch_become_one() -> None:
    assert merge_marks([(10, 20), (0, 3), (4, 6), (19, 25)], 2) == [(0, 6), (10, 25)]


def test_the_largest_of_each_stretch_stays() -> None:
    assert downsample([1, 5, None, None, 2, 3], 3) == [5, None, 3]
    assert downsample([1, None], 3) == [1, None]


def test_windows_are_ones_that_people_name() -> None:
    spans = [1, HOUR_MS, 24 * HOUR_MS, 48 * HOUR_MS, 30 * 24 * HOUR_MS, 2000 * 24 * HOUR_MS]
    minutes = [window_ms(span) / 60_000 for span in spans]
    assert minutes == [1, 1, 5, 10, 180, 10_080]
