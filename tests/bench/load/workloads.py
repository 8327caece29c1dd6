"""Workloads (a) to (d): what is asked, again and again, of whom.

Each prepares its members over a few connections, then repeats one request on each of many and
counts the answers. Every counted reply must be as the one that its connection got before the clock
ran, and that one must be free of errors: refusals are quick, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench import frames
from tests.bench.load.generator import LoadFailed
from tests.bench.load.members import (
    PARTITIONS,
    TOPIC,
    check_error,
    classics,
    committed,
    consumers,
)
from tests.bench.peers.processes import Peer
from tests.bench.plan import Plan

TOPICS = {TOPIC: PARTITIONS}
SIZES = (100, 1_000, 10_000)
QUICK_SIZE = 20
WINDOWS = (1, 8)
COMMITS = ((1, 1), (1, 100), (10, 100), (100, 10))
"""(partitions, connections)."""

Prepare = Callable[[Peer, int], list[bytes]]
"""Makes the steady requests of so many connections."""


@dataclass(frozen=True, slots=True)
class Load:
    """A steady load. `prepare` makes the requests, `check` raises LoadFailed at a reply that is
    none; `durable`: against peers that keep what they acknowledge; `echo`: a server that does not
    look at requests can do it; `figure`: the plot that it is a point of, by connections."""

    name: str
    prepare: Prepare
    check: Callable[[bytes], None]
    connections: int
    window: int = 1
    durable: bool = False
    echo: bool = False
    figure: str = ""


def consumer_heartbeats(plan: Plan) -> list[Load]:
    """The loads of workload (a)."""
    return _heartbeats("consumer", consumers, partial(check_error, at=5), plan)


def classic_heartbeats(plan: Plan) -> list[Load]:
    """The loads of workload (b)."""
    return _heartbeats("classic", classics, partial(check_error, at=4), plan)


def _heartbeats(
    protocol: str, prepare: Prepare, check: Callable[[bytes], None], plan: Plan
) -> list[Load]:
    found = []
    for window in WINDOWS[-1:] if plan.quick else WINDOWS:
        for size in (QUICK_SIZE,) if plan.quick else SIZES:
            kind = f"Steady heartbeats, {protocol} protocol"
            flight = f"{window} in flight"
            name = f"{kind}, {size:,} connections, {flight}"
            figure = f"{kind}, {flight}"
            load = Load(name, prepare, check, size, window, echo=True, figure=figure)
            found.append(load)
    return found


def commits(plan: Plan) -> list[Load]:
    """The loads of workload (c): durable against durable, memory against memory."""
    sizes = ((1, QUICK_SIZE),) if plan.quick else COMMITS
    return [commit(*size, durable=durable) for durable in (True, False) for size in sizes]


def commit(partitions: int, connections: int, *, durable: bool) -> Load:
    where = "durable" if durable else "in memory"
    counted = f"{_counted(partitions, 'partition')}, {_counted(connections, 'connection')}"
    return Load(
        f"OffsetCommit of {counted}, {where}",
        partial(committed, partitions=partitions),
        partial(_check_commit, partitions=partitions),
        connections,
        durable=durable,
    )


def _check_commit(reply: bytes, partitions: int) -> None:
    # tags, throttle, one topic (its count, name and tags), partitions of 7 bytes, two tags
    for number in range(partitions):
        check_error(reply, len(reply) - 2 - 7 * (partitions - number) + 4)


def fetches(plan: Plan) -> list[Load]:
    """The loads of workload (d): fetches of offsets that are there."""
    partitions, connections = 10, QUICK_SIZE if plan.quick else 100
    return [
        Load(
            f"OffsetFetch of {partitions} partitions, {connections} connections",
            partial(_fetches, partitions=partitions),
            partial(_check_fetch, partitions=partitions),
            connections,
        )
    ]


def _fetches(peer: Peer, connections: int, partitions: int) -> list[bytes]:
    committed(peer, connections, partitions)
    return [frames.offset_fetch(f"commit-{i}", TOPIC, partitions) for i in range(connections)]


def _check_fetch(reply: bytes, partitions: int) -> None:
    check_error(reply, len(reply) - 3)
    if reply.count((42).to_bytes(8, "big")) != partitions:
        raise LoadFailed("does not find what was committed")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def check_all(load: Load, replies: Sequence[bytes]) -> None:
    """Checks all replies. Raises LoadFailed."""
    for reply in replies:
        load.check(reply)
