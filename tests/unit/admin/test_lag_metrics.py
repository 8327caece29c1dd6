"""The series about lag: how many there may be, and which are left out."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client.samples import Sample

from groupd.coordinator.admin.lag_metrics import LagCollector
from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.lag.growth import Bounds
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.watch import GroupLag, LagWatch, PartitionLag
from groupd.coordinator.runtime.long_work import LongWork
from tests.support.manual_clock import ManualClock

PARTITIONS = 100
OWN = 4
"""Series about the watch itself, which do not count."""
OF_GROUP = 2 + 2 + 2
"""Members and state, age and judgement, and two of its topic."""
OF_LOGS = 1 + 2 * PARTITIONS
"""The number of partitions of the topic, and the bounds of each."""
ALL = OF_GROUP + 4 * PARTITIONS + OF_LOGS


def stopped(partitions: int) -> GroupLag:
    made = GroupLag({"orders": {}})
    for number in range(partitions):
        one = PartitionLag(1, 1, 1, 1, 1, 1, age_ms=1, judgement=Judgement.STOPPED)
        made.topics["orders"][number] = one
        made.totals.add(("orders", number), one)
    return made


def collector(series_max: int) -> LagCollector:
    """A collector that sees one group, which has stopped on all partitions of a topic."""
    group = Mock(members=(), type_name="consumer", state_name=lambda: "Empty")
    shard = Mock(shard=Mock(state=Mock(groups={"billing": group})))
    topic = Mock(partitions=PARTITIONS)
    config = Mock(metrics_lag="partition")
    broker = Mock(config=config, shards=[shard], image=Mock(by_name={"orders": topic}))
    watch = LagWatch(broker, Mock(), ManualClock(), LongWork(), AdminSettings())
    watch.groups = {"billing": stopped(PARTITIONS)}
    watch.bounds = {"orders": {number: Bounds(0, 2) for number in range(PARTITIONS)}}
    return LagCollector(broker, watch, series_max)


def scraped(made: LagCollector) -> tuple[list[Sample], float]:
    """The series that count, and how many are said to be left out."""
    samples = [sample for family in made.collect() for sample in family.samples]
    (left_out,) = (one.value for one in samples if one.name == "groupd_lag_series_left_out")
    counting = [one for one in samples if not one.name.startswith("groupd_lag_")]
    assert len(samples) - len(counting) == OWN
    return counting, left_out


def test_what_is_not_known_yet_has_no_series() -> None:
    made = collector(ALL)
    watch: Any = made._watch
    young = watch.groups["billing"] = GroupLag({"orders": {}})
    for number, lag in enumerate((0, 7)):
        one = PartitionLag(1, lag, 1, 1, 1, 1, judgement=None if lag else Judgement.OK)
        young.topics["orders"][number] = one
        young.totals.add(("orders", number), one)
    samples, _ = scraped(made)
    assert [one.value for one in samples if one.name == "kafka_consumergroup_lag"] == [0, 7]
    of_groupd = [
        (one.name, one.labels.get("partition"), one.value)
        for one in samples
        if one.name.startswith("groupd_") and one.name != "groupd_consumergroup_state"
    ]
    assert of_groupd == [("groupd_consumergroup_lag_seconds", "0", 0)], "without lag it is known"


@pytest.mark.parametrize(
    ("series_max", "shown"),
    [
        (ALL, ALL),
        (ALL - 1, ALL - OF_LOGS),
        (ALL - OF_LOGS, ALL - OF_LOGS),
        (OF_GROUP + 3 * PARTITIONS, OF_GROUP),
        (OF_GROUP, OF_GROUP),
        (3, 2),
        (0, 0),
    ],
)
def test_no_more_series_than_the_limit_says(series_max: int, shown: int) -> None:
    samples, left_out = scraped(collector(series_max))
    assert len(samples) == shown
    assert left_out == ALL - shown


async def test_a_round_between_counting_and_writing_adds_nothing() -> None:
    made = collector(ALL)
    watch: Any = made._watch
    watch.groups["billing"] = few = stopped(1)
    few.topics["orders"][1] = PartitionLag(1, 0, 1, 1, 1, 1)
    await made.prepare(LongWork())
    few.topics["orders"] = dict(stopped(PARTITIONS).topics["orders"])
    watch.bounds = {}
    samples, left_out = scraped(made)
    assert len(samples) == OF_GROUP + 3 * 2 + 1 + OF_LOGS
    assert left_out == 0
