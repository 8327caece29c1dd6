"""Planned hand-over: how long a group is unavailable when its node is drained, or ends with
SIGTERM, and when its shard has 100,000 offsets."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from groupd.coordinator.core.partitioning import offsets_log_name, partition_for
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.storage.log import Append
from groupd.storage.open import create_store
from groupd.storage.units import GROUPS
from tests.bench.cluster.client import committing
from tests.bench.cluster.death import SHARDS, groups_of
from tests.bench.cluster.nodes import TOPIC, BenchCluster, running_cluster
from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.support.postgres import PostgresServer, running_postgres

NAME = "Planned hand-over: how long a group is unavailable"
LARGE = "Moving a shard with 100,000 offsets: how long its group is unavailable"
RUNS = 10
SETTLE_S = 2.0
SHARD = 7
OFFSETS, PER_BATCH, PER_GROUP = 100_000, 100, 100
PEER = "groupd, 3 nodes"
Event = Callable[[BenchCluster, int], None]


def measure(plan: Plan) -> Iterator[Workload]:
    runs = 1 if plan.quick else RUNS
    with running_postgres() as server:
        if plan.wants(NAME):
            with running_cluster(server, 3) as cluster:
                for what, event, undo in (
                    ("drain", drain, resume),
                    ("SIGTERM", _terminate, _restart),
                ):
                    worst = []
                    for run in range(runs):
                        worst.append(_gap_ms(cluster, run % 3, event))
                        undo(cluster, run % 3)
                        cluster.shared()
                    yield Workload(f"{NAME}: {what}, worst of ten groups", "ms", {PEER: worst})
        if plan.wants(LARGE):
            yield from _large(server, runs, 2_000 if plan.quick else OFFSETS)


def _gap_ms(
    cluster: BenchCluster, node: int, event: Event, groups: list[str] | None = None
) -> float:
    """The longest pause of any of the groups of a node while `event` happens to it."""
    began = 0.0

    def happens() -> float:
        nonlocal began
        began = time.perf_counter()
        event(cluster, node)
        return time.perf_counter()

    names = groups or groups_of(cluster, node)
    committers, _, end = asyncio.run(
        committing(names, cluster.addresses, happens, SETTLE_S, pause_s=0.01)
    )
    assert not any(one.errors for one in committers), [one.errors for one in committers]
    return max(one.longest_s(began, end) for one in committers) * 1000


def drain(cluster: BenchCluster, node: int) -> None:
    _post(cluster, node, "drain")


def resume(cluster: BenchCluster, node: int) -> None:
    _post(cluster, node, "resume")


def _post(cluster: BenchCluster, node: int, action: str) -> None:
    daemon = cluster.daemons[node]
    request = urllib.request.Request(
        f"{daemon.admin_url}/cluster/{action}?node={cluster.node_id(daemon)}",
        method="POST",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


def _terminate(cluster: BenchCluster, node: int) -> None:
    cluster.daemons[node].process.send_signal(signal.SIGTERM)
    cluster.daemons[node].process.wait_exit(10)


def _restart(cluster: BenchCluster, node: int) -> None:
    cluster.daemons[node].process.close()
    cluster.daemons[node].start()


def _large(server: PostgresServer, runs: int, offsets: int) -> Iterator[Workload]:
    database = server.new_database()
    asyncio.run(_fill(server.url(database), offsets))
    group = next(f"bench-{n}" for n in count() if partition_for(f"bench-{n}", SHARDS) == SHARD)
    with running_cluster(server, 3, database=database) as cluster:
        gaps = []
        for _ in range(runs):
            node = cluster.owner(GROUPS, SHARD)
            gaps.append(_gap_ms(cluster, node, drain, [group]))
            resume(cluster, node)
            cluster.shared()
    yield Workload(LARGE, "ms", {PEER: gaps})


async def _fill(url: str, offsets: int) -> None:
    """One shard with so many offsets, in groups of `PER_GROUP`."""
    store = create_store(url, Path())
    await store.start()
    try:
        name, now_ms = offsets_log_name(SHARD), time.time_ns() // 1_000_000
        state = (await store.open_many([name]))[name]
        groups = (f"full-{n}" for n in count() if partition_for(f"full-{n}", SHARDS) == SHARD)
        waiting = []
        for first in range(0, offsets, PER_BATCH):
            group = next(groups)
            records = []
            for partition in range(PER_BATCH):
                key = OffsetCommitKey(group, TOPIC, partition)
                value = OffsetCommitValue(partition, commit_timestamp_ms=now_ms)
                records.append((encode_key(key), encode_value(Record(key, value))))
            base, last = state.next_offset + first, state.next_offset + first + PER_BATCH - 1
            payload = encode_batch(base, 0, now_ms, records)
            waiting.append(Append(name, state.owner_epoch, base, last, now_ms, payload))
        for at in range(0, len(waiting), 200):
            await store.append(waiting[at : at + 200])
    finally:
        await store.close()
