"""The page about the lag of a group: the sentence that says why it is judged as it is, and its last
hour."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from groupd.coordinator.admin.group_pages import lag_steps, reason
from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.lag.growth import MINUTE_MS, Trend
from groupd.coordinator.lag.judgement import Judgement, SilentMember
from groupd.coordinator.lag.watch import GroupLag, LagWatch, PartitionLag
from groupd.coordinator.runtime.long_work import LongWork
from tests.support.manual_clock import ManualClock

NOW_MS = 1_000_000


def group(judgement: Judgement | None, *lags: int) -> GroupLag:
    """One partition for each lag. Offset 5 was committed 100 s ago; it went back 30 s ago."""
    made = GroupLag(topics={"orders": {}})
    for number, lag in enumerate(lags):
        one = PartitionLag(
            offset=5,
            lag=lag,
            commit_ms=0,
            since_ms=0,
            committed_ms=NOW_MS - 100_000,
            moved_ms=NOW_MS - 200_000,
            rewound_ms=NOW_MS - 30_000,
            judgement=judgement,
        )
        made.topics["orders"][number] = one
        made.totals.add(("orders", number), one)
    return made


@pytest.mark.parametrize(
    ("judgement", "lags", "wanted"),
    [
        (Judgement.OK, [0], "no records wait"),
        (Judgement.OK, [2, 1], "3 records wait, and it keeps up"),
        (
            Judgement.STOPPED,
            [1],
            (
                "orders-0: no member has it, and nothing was committed for 1 min 40 s,"
                " although 1 record waits"
            ),
        ),
        (None, [3], None),
        (
            Judgement.STALLED,
            [7],
            "orders-0: offset 5 was committed again and again for 3 min 20 s; 7 records wait",
        ),
        (
            Judgement.BEHIND,
            [7, 9],
            (
                "orders-1: it commits, but the lag does not become less; 9 records wait"
                " (1 more partition is behind)"
            ),
        ),
        (
            Judgement.REWOUND,
            [9, 7, 7],
            (
                "orders-0: its committed offset went back 30 s ago, and is 5 now"
                " (2 more partitions are rewound)"
            ),
        ),
    ],
)
def test_the_worst_partition_is_named(
    judgement: Judgement | None, lags: list[int], wanted: str | None
) -> None:
    assert reason(group(judgement, *lags), ClassicGroup.simple("billing"), NOW_MS) == wanted


def test_a_partition_of_which_its_owner_commits_nothing() -> None:
    known = group(Judgement.STALLED, 7)
    known.topics["orders"][0].committed_ms = known.topics["orders"][0].moved_ms = NOW_MS - 90_000
    assert reason(known, ClassicGroup.simple("billing"), NOW_MS) == (
        "orders-0: nothing was committed for 1 min 30 s, although 7 records wait"
    )


def test_silent_members_are_named_with_what_waits_for_them(watch: LagWatch) -> None:
    known = watch.groups["billing"]
    known.totals.judgement = Judgement.STALLED
    places = [("orders", number) for number in range(4)]
    now_ms = watch.now().monotonic_ms
    known.silent = [
        SilentMember("m-1", now_ms - 83_000, 235, 6, places),
        SilentMember("gone", now_ms - 61_000, 1, 1, places[:1]),
    ]
    asked = ClassicGroup.simple("billing")
    asked.members["m-1"] = Mock(client_id="billing-2", client_host="/10.20.0.12")
    page = run_through(lag_steps(watch, asked))
    text = (
        "m-1 (client billing-2 at 10.20.0.12) is in the group, but has committed nothing for "
        "1 min 23 s, although 235 records wait in orders-0, orders-1, orders-2, orders-3 and 2 more"
    )
    assert page["reason"] == f"{text} (1 more member is silent)"
    assert page["silent_count"] == 2
    assert [(one["member_id"], one["silent_ms"], one["lag"]) for one in page["silent"]] == [
        ("m-1", 83_000, 235),
        ("gone", 61_000, 1),
    ]
    assert [one["text"] for one in page["silent"]] == [
        text,
        (
            "gone is in the group, but has committed nothing for 1 min 1 s, although 1 record waits"
            " in orders-0"
        ),
    ]


@pytest.fixture
async def watch() -> LagWatch:
    """One round ago: 7 and 9 records of two partitions waited."""
    clock = ManualClock(monotonic_ms=NOW_MS, wall_ms=1_800_000_000_000)
    made = LagWatch(Mock(), Mock(), clock, LongWork(), AdminSettings())
    known = made.groups["billing"] = group(Judgement.BEHIND, 7, 9)
    known.trend.add(NOW_MS, 16)
    for number, lag in enumerate((7, 9)):
        trend = made.trends["billing", ("orders", number)] = Trend()
        trend.add(NOW_MS, lag)
    clock.advance(MINUTE_MS)
    return made


async def test_the_last_hour_ends_with_the_last_round(watch: LagWatch) -> None:
    page = run_through(lag_steps(watch, ClassicGroup.simple("billing")))
    assert page["now_ms"] == watch.now().wall_ms
    times, history = page["history"]["times_ms"], page["history"]
    assert len(times) == 60
    assert 0 <= watch.round_at.wall_ms - times[-1] < MINUTE_MS
    assert history["total"][-2:] == [None, 16]
    assert [(one["partition"], one["lag"][-1]) for one in history["partitions"]] == [(1, 9), (0, 7)]


async def test_a_round_between_two_steps_takes_a_partition_off_the_page(watch: LagWatch) -> None:
    steps = lag_steps(watch, ClassicGroup.simple("billing"))
    next(steps)
    del watch.trends["billing", ("orders", 1)]  # it has no lag any more
    page = run_through(steps)
    assert [one["partition"] for one in page["history"]["partitions"]] == [0]
