"""What a commit costs in processor time on three nodes and on one, and how often an idle node asks
the database."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import frames
from tests.bench.cluster.death import groups_of
from tests.bench.cluster.nodes import TOPIC, BenchCluster, running_cluster
from tests.bench.daemon_process import DaemonProcess
from tests.bench.figures import Workload, interleaved
from tests.bench.load.generator import Result, repeat
from tests.bench.plan import Plan
from tests.bench.proc import cpu_seconds
from tests.support.cluster import NODES
from tests.support.postgres import PostgresServer, running_postgres

COST = "Processor time for a commit on PostgreSQL"
IDLE = "What an idle node asks the database"
CONNECTIONS = 96
WARMUP_S = 1.0
IDLE_S = 20.0
ONE, NODE, THREE = "groupd, one daemon", "groupd, a cluster of one", "groupd, 3 nodes"
FULL = "groupd, 3 nodes, as many connections for each"
"""With the connections of one node spread over three, each writes smaller batches, in more
transactions. This peer shows the cluster without that: each node has as many as the one."""


def measure(plan: Plan) -> Iterator[Workload]:
    if plan.wants(COST):
        yield from _costs(plan)
    if plan.wants(IDLE):
        yield from _idle(plan)


def _costs(plan: Plan) -> Iterator[Workload]:
    rates: dict[str, list[float]] = {ONE: [], NODE: [], THREE: [], FULL: []}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        alone = stack.enter_context(running_cluster(server, 1))
        three = stack.enter_context(running_cluster(server, NODES))
        daemon = stack.enter_context(_alone(server))
        runs: dict[str, Callable[[], tuple[float, list[Result]]]] = {
            ONE: lambda: _alone_run(daemon, plan.seconds),
            NODE: lambda: _cluster_run(alone, plan.seconds, CONNECTIONS),
            THREE: lambda: _cluster_run(three, plan.seconds, CONNECTIONS // NODES),
            FULL: lambda: _cluster_run(three, plan.seconds, CONNECTIONS),
        }

        def cost_us(peer: str) -> float:
            used_s, results = runs[peer]()
            rates[peer].append(sum(one.count / one.seconds for one in results))
            return used_s / sum(one.count for one in results) * 1e6

        samples = interleaved(plan.runs, list(runs), cost_us)
    for spread, peer in (("in all", THREE), ("for each node", FULL)):
        name = f"{COST}, {CONNECTIONS} connections {spread}"
        costs, done = ({ONE: by[ONE], NODE: by[NODE], THREE: by[peer]} for by in (samples, rates))
        yield Workload(name, "us of CPU of all nodes", costs)
        yield Workload(name, "commits a second", done, measure="the rate", higher_is_better=True)


@contextlib.contextmanager
def _alone(server: PostgresServer) -> Iterator[DaemonProcess]:
    url = server.url(server.new_database())
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        flags = ("--store", url, "--topic", f"{TOPIC}:10")
        with DaemonProcess(*flags, data_dir=Path(directory)) as daemon:
            yield daemon


def _frames(groups: list[str]) -> list[bytes]:
    return [frames.offset_commit(group, TOPIC, 1, 42) for group in groups]


def _alone_run(daemon: DaemonProcess, seconds: float) -> tuple[float, list[Result]]:
    groups = [f"bench-{n}" for n in range(CONNECTIONS)]
    cpu = daemon.cpu_seconds
    result = repeat(
        daemon.kafka,
        _frames(groups),
        window=1,
        seconds=seconds,
        warmup_s=WARMUP_S,
        peer_cpu_s=cpu,
    )
    return result.peer_cpu_us * result.count / 1e6, [result]


def _cluster_run(cluster: BenchCluster, seconds: float, each: int) -> tuple[float, list[Result]]:
    """The same load, on the nodes that have the groups: a generator with `each` connections for
    each of them, all at once."""
    loads = []
    for node, address in enumerate(cluster.addresses):
        shards = groups_of(cluster, node, each)
        loads.append((address, _frames([shards[n % len(shards)] for n in range(each)])))
    results: list[Result] = []
    daemons = list(cluster.daemons)

    def run(node: int) -> None:
        address, requests = loads[node]
        results.append(
            repeat(
                address,
                requests,
                window=1,
                seconds=seconds,
                warmup_s=WARMUP_S,
                peer_cpu_s=lambda: cpu_seconds(daemons[node].pid),
            )
        )

    threads = [threading.Thread(target=run, args=(node,)) for node in range(len(loads))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(loads)
    return sum(one.peer_cpu_us * one.count for one in results) / 1e6, results


def _idle(plan: Plan) -> Iterator[Workload]:
    runs, seconds = (1, 2.0) if plan.quick else (2, IDLE_S)
    asked: dict[str, list[float]] = {}
    statements: dict[str, list[float]] = {}
    with running_postgres() as server:
        server.execute("postgres", "ALTER SYSTEM SET log_statement = 'all'")
        for count in (1, 3):
            peer = NODE if count == 1 else THREE
            with running_cluster(server, count) as cluster:
                server.execute("postgres", "SELECT pg_reload_conf()")
                time.sleep(3.0)
                for _ in range(runs):
                    before = server.statements(cluster.database)
                    time.sleep(seconds)
                    seen = server.statements(cluster.database) - before
                    asked.setdefault(peer, []).append(seen["BEGIN"] / seconds / count)
                    statements.setdefault(peer, []).append(seen.total() / seconds / count)
    yield Workload(IDLE, "transactions a second and node", asked)
    yield Workload(IDLE, "statements a second and node", statements, measure="statements")
