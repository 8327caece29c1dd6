"""What TLS, rights and logins cost: each beside the same broker without them, in one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.bench.figures import Workload
from tests.bench.load import workloads
from tests.bench.load.measure import measure_loads
from tests.bench.load.workloads import Load
from tests.bench.plan import Plan
from tests.bench.security import idle, logins
from tests.bench.security.variants import ACLS, TLS, base_of, start

SIZES = (100, 1_000)
IN_MEMORY = "OffsetCommit of 1 partition, 100 connections, in memory"


def measure(plan: Plan) -> Iterator[Workload]:
    yield from _beside(_heartbeats(plan), plan, TLS)
    yield from _beside([*_heartbeats(plan)[:1], *_commits(plan)], plan, ACLS)
    yield from idle.measure(plan)
    yield from logins.measure(plan)


def _beside(loads: list[Load], plan: Plan, peers: tuple[str, ...]) -> Iterator[Workload]:
    """Measures loads side by side, of those peers whose broker is wanted."""
    with_what = peers[1].partition(", ")[2]
    wanted = [peer for peer in _asked(peers, plan) if not plan.peers or base_of(peer) in plan.peers]
    named = [replace(load, name=f"{load.name}; {with_what}", figure="") for load in loads]
    for workload in measure_loads(named, replace(plan, peers=()), wanted, start):
        if workload.measure in ("", "CPU of the peer"):
            yield workload


def _asked(peers: tuple[str, ...], plan: Plan) -> tuple[str, ...]:
    """The peers to measure. A quick run leaves out those without any security: other parts have
    them."""
    return peers[1::2] if plan.quick else peers


def _heartbeats(plan: Plan) -> list[Load]:
    """Heartbeats of the consumer protocol, one in flight."""
    found = workloads.consumer_heartbeats(plan)
    return [one for one in found if plan.quick or (one.window == 1 and one.connections in SIZES)]


def _commits(plan: Plan) -> list[Load]:
    return [one for one in workloads.commits(plan) if one.name == IN_MEMORY]
