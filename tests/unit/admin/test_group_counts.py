"""Groups are counted before a scrape, in slices: the scrape says the same."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from groupd.coordinator.admin import group_metrics
from groupd.coordinator.admin.metrics import MetricsRegistry
from groupd.coordinator.runtime.long_work import LongWork
from tests.unit.admin.registry import registry_of
from tests.unit.runtime.harness import Bench, commit, consumer_join

COUNT = "kafka_server_group_coordinator_metrics_"


def counted(registry: MetricsRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    names = ("group_count{", "consumer_group_count{", "classic_group_count{", "offset_count ")
    return [line for line in lines if line.startswith(tuple(COUNT + name for name in names))]


async def test_prepared_or_not_a_scrape_says_the_same() -> None:
    bench = await Bench(shards=3).start()
    for number in range(4):
        await bench.answer(commit(f"simple-{number}", 5))
    await bench.answer(consumer_join("modern", "m"))
    registry = registry_of(bench.broker)
    at_once = counted(registry)
    assert f'{COUNT}group_count{{protocol="classic"}} 4.0' in at_once
    assert f'{COUNT}group_count{{protocol="consumer"}} 1.0' in at_once
    assert f"{COUNT}offset_count 4.0" in at_once
    await registry.prepare(LongWork())
    assert counted(registry) == at_once
    await bench.answer(commit("simple-new", 5))
    assert counted(registry) != at_once, "what was counted is for one scrape"
    await bench.broker.close()


async def test_counting_stops_after_every_shard_and_within_a_large_one() -> None:
    bench = await Bench(shards=2).start()
    assert bench.broker.served.get(1) is not None
    for number in range(2 * group_metrics.GROUPS_PER_STEP):
        bench.shard.shard.offsets.replay_many(f"g{number}", "t", {})
    steps = group_metrics.count_steps(bench.broker)
    assert len(list(steps)) == 4
    await bench.broker.close()
