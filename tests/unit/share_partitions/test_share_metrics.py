"""The metrics of the leaders of share-partitions."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from groupd.coordinator.admin.collectors import text_steps
from groupd.coordinator.admin.share_metrics import ShareRequestsMetrics
from groupd.coordinator.core.slices import run_through
from groupd.protocol.messages.share_fetch import RELEASE
from tests.unit.share_partitions.share_world import LOCK_MS, acked


def metrics(world, detail="partition", series_max=100):
    broker = Mock(config=Mock(metrics_lag=detail), image=world.plane.catalogue.image)
    return ShareRequestsMetrics(world.shares, broker, series_max)


def scraped(collector):
    text = run_through(text_steps(collector)).decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def read(world, foo):
    """Ten records: two are accepted, one is released, the others stay locked until they time
    out."""
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0), (foo, 1))
    await member.acknowledge(1, {(foo, 0): [acked(0, 1), acked(5, 5, RELEASE)]})


async def test_what_members_do_is_counted(world, foo):
    await read(world, foo)
    found = scraped(metrics(world))
    assert found["kafka_server_brokertopicmetrics_totalsharefetchrequests_total"] == 1
    assert found["kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total"] == 1
    assert found["kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total"] == 0
    by_type = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
    assert found[f'{by_type}{{acktype="Accept"}}'] == 2
    assert found[f'{by_type}{{acktype="Release"}}'] == 1
    assert found[f'{by_type}{{acktype="Reject"}}'] == 0
    assert found["kafka_server_sharesessioncache_sharesessionscount"] == 1
    assert found["kafka_server_sharesessioncache_sharepartitionscount"] == 2
    assert found['groupd_share_records_finished_total{end="accepted"}'] == 2
    assert found['groupd_share_records_finished_total{end="delivery_limit"}'] == 0
    assert found["groupd_share_partitions_led"] == found["groupd_share_loads_total"] == 2


async def test_share_partitions_have_their_own_series(world, foo):
    await read(world, foo)
    place = 'partition="0",topic="foo"}'
    of_kafka = "kafka_server_sharepartitionmetrics_"
    flight = f'{of_kafka}inflightmessagecount{{group="g",{place}'
    start = f'groupd_share_start_offset{{consumergroup="g",{place}'
    out = f'{of_kafka}acquisitionlocktimeout_total{{group="g",{place}'
    found = scraped(metrics(world))
    assert (found[flight], found[start], found[out]) == (8, 2, 0)
    world.advance(LOCK_MS)
    await world.settle()
    found = scraped(metrics(world))
    assert found[out] == found["groupd_share_lock_timeouts_total"] == 7


@pytest.mark.parametrize(
    ("detail", "series_max", "numbers", "left_out"),
    [
        ("partition", 6, ["0", "1"], 0),
        ("partition", 5, ["0"], 3),
        ("partition", 2, [], 6),
        ("topic", 100, [], 0),
    ],
)
async def test_the_most_in_flight_come_first(world, foo, detail, series_max, numbers, left_out):
    await read(world, foo)
    collector = metrics(world, detail, series_max)
    await collector.prepare(world.work)
    found = scraped(collector)
    shown = [name for name in found if name.startswith("groupd_share_start_offset")]
    assert [name.partition('partition="')[2][:1] for name in shown] == numbers
    assert found["groupd_share_series_left_out"] == left_out
