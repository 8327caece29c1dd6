"""The sentence that says why a group is judged as it is."""

from __future__ import annotations

import pytest

from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.watch import GroupLag, PartitionLag
from groupd.coordinator.server.group_pages import reason

NOW_MS = 1_000_000


def group(judgement: Judgement, *lags: int) -> GroupLag:
    """One partition for each lag. Offset 5 was committed 100 s ago; it went back 30 s ago."""
    made = GroupLag(topics={"orders": {}})
    for number, lag in enumerate(lags):
        one = PartitionLag(
            offset=5,
            lag=lag,
            commit_ms=NOW_MS - 100_000,
            since_ms=0,
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
            "orders-0: nothing was committed for 1 min 40 s, although 1 record waits",
        ),
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
def test_the_worst_partition_is_named(judgement: Judgement, lags: list[int], wanted: str) -> None:
    assert reason(group(judgement, *lags), NOW_MS) == wanted
