"""(h): the time from the start of the process to the first reply; idle memory; memory for a
member."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench import frames
from tests.bench.figures import Workload, interleaved
from tests.bench.load.generator import LoadFailed, once
from tests.bench.peers.processes import STARTERS, NoPeer, Peer, running
from tests.bench.plan import Plan
from tests.bench.proc import memory
from tests.bench.recovery.probe import wait_for_api_versions

TOPIC = "bench"
TOPICS = {TOPIC: 100}
IDLE_S = 0.5
CONNECTIONS = 50
START_RUNS = 10

_NOTES: Mapping[str, str] = {
    "Apache Kafka": "second start, until its group coordinator answers",
    "librdkafka mock": "with Python around it",
    "Tansu": "until its topic is there",
}
_HEAP_NOTES: Mapping[str, str] = {
    "Apache Kafka": "a JVM keeps what it once took",
    "kfake": "Go collects when it likes",
}


START = "Start of the process to the first reply"


def measure(plan: Plan) -> Iterator[Workload]:
    peers = plan.among(STARTERS)
    if plan.wants(START):
        yield from _starts(plan, peers)
    members = 500 if plan.quick else 10_000
    kinds = ((10, "in groups of ten"), (1, "alone in their groups"))
    for size, where in kinds[:1] if plan.quick else kinds:
        name = f"Memory for a member, {members:,} {where}"
        if not plan.wants(name):
            continue
        why = dict(_HEAP_NOTES)

        def for_a_member(name: str, size: int = size) -> float:
            return _for_a_member(name, members, size)

        many = 1 if plan.quick else plan.runs
        per_member = interleaved(many, peers, for_a_member, why, (NoPeer, LoadFailed))
        yield Workload(name, "bytes", per_member, why)


def _starts(plan: Plan, peers: Sequence[str]) -> Iterator[Workload]:
    """Measures starts, and the memory that the processes take afterwards."""
    idle: dict[str, list[float]] = {peer: [] for peer in peers}
    notes = dict(_NOTES)

    def start(name: str) -> float:
        with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
            path = Path(directory)
            if name == "Apache Kafka":  # its first start formats the disk
                with running(name, path, TOPICS, durable=False):
                    pass
            began = time.perf_counter()
            with running(name, path, TOPICS, durable=False) as peer:
                wait_for_api_versions(peer)
                took_s = time.perf_counter() - began
                time.sleep(IDLE_S)
                idle[name].append(memory(peer.pid)[1] / 1e6)
                return took_s * 1000

    runs = 1 if plan.quick else max(plan.runs, START_RUNS)
    samples = interleaved(runs, peers, start, notes, (NoPeer,))
    yield Workload(START, "ms", samples, notes)
    yield Workload("Idle memory, proportional", "MB", idle, notes)


def _for_a_member(name: str, members: int, size: int) -> float:
    """The memory of members that have joined and sent nothing since: no connection is theirs."""
    # In memory groupd would hold its log, too.
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        running(name, Path(directory), TOPICS, durable=name.startswith("groupd")) as peer,
    ):
        _join(peer, CONNECTIONS, size, "warm")
        before = memory(peer.pid)[1]
        _join(peer, members, size, "bench")
        time.sleep(IDLE_S)
        # Few members may take less than what the allocator had in hand.
        return max(0.0, (memory(peer.pid)[1] - before) / members)


def _join(peer: Peer, members: int, size: int, prefix: str) -> None:
    joins = [
        frames.consumer_heartbeat(
            f"{prefix}-{number // size}", f"{prefix}-member-{number:07d}", 0, (TOPIC,), ()
        )
        for number in range(members)
    ]
    once(peer.address, joins, CONNECTIONS)
