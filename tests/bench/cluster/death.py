"""From kill -9 of a node to the first commit of its groups elsewhere, at default settings; Apache
Kafka beside it: three brokers, of which the coordinator's is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from groupd.coordinator.core.partitioning import partition_for
from groupd.storage.units import GROUPS
from tests.bench.cluster.client import committing
from tests.bench.cluster.nodes import Address, BenchCluster, running_cluster
from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.support.postgres import running_postgres

NAME = "From kill -9 of a coordinator to the first commit elsewhere"
RUNS, GROUPS_OF_A_NODE, SHARDS = 20, 10, 50
GROUPD, KAFKA = "groupd, 3 nodes", "Apache Kafka"


def measure(plan: Plan) -> Iterator[Workload]:
    if not plan.wants(NAME):
        return
    runs = 1 if plan.quick else RUNS
    with running_postgres() as server, running_cluster(server, 3) as cluster:
        firsts, alls = [], []
        for run in range(runs):
            took = _groupd(cluster, run % 3)
            firsts.append(took[0])
            alls.append(took[1])
    first, last = {GROUPD: firsts}, {GROUPD: alls}
    if not plan.quick and plan.among((KAFKA,)):
        # Imported late: it needs what is here.
        from tests.bench.cluster.kafka import deaths

        first[f"{KAFKA}, 3 brokers"], last[f"{KAFKA}, 3 brokers"] = deaths(plan.runs)
    for measure, samples in (("the first group", first), ("the last of ten groups", last)):
        worst = {peer: f"worst {max(values):.2f} s" for peer, values in samples.items()}
        yield Workload(f"{NAME}: {measure}", "s", samples, worst)


def groups_of(cluster: BenchCluster, node: int, many: int = GROUPS_OF_A_NODE) -> list[str]:
    """Names of groups of which that node is the coordinator, each in a shard of its own."""
    node_id = cluster.node_id(cluster.daemons[node])
    shards = {
        unit["number"]
        for unit in cluster.page()["units"]
        if unit["kind"] == GROUPS and unit["owner"] == node_id
    }
    found: list[str] = []
    for number in count():
        shard = partition_for(f"bench-{number}", SHARDS)
        if shard in shards:
            shards.remove(shard)
            found.append(f"bench-{number}")
        if len(found) == many or not shards:
            return found
    raise AssertionError


def times(
    groups: Sequence[str], nodes: Sequence[Address], kill: Callable[[], float]
) -> tuple[float, float]:
    """Seconds from `kill` to the first commit of the first group and of the last one."""
    committers, moment, _ = asyncio.run(committing(groups, nodes, kill, 0.0))
    took = [one.first_after(moment) - moment for one in committers]
    return min(took), max(took)


def _groupd(cluster: BenchCluster, node: int) -> tuple[float, float]:
    daemon = cluster.daemons[node]

    def kill() -> float:
        daemon.kill()
        return time.perf_counter()

    took = times(groups_of(cluster, node), cluster.addresses, kill)
    daemon.restart()
    cluster.shared()
    return took
