"""What a steady heartbeat costs as members become more (j): CPU of the broker, not rates.

The members of all sizes share the same few connections, so that what grows is the coordinator's
work and nothing else. New connections and the first heartbeat on each are left out: of every size
a short and a long run are taken, and what the long one costs more is divided by what it sends more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from tests.bench import frames
from tests.bench.figures import Workload, interleaved
from tests.bench.load.generator import LoadFailed, once
from tests.bench.peers.processes import NoPeer, Peer, running
from tests.bench.plan import Plan

SIZES = (10, 100, 1_000, 10_000, 100_000)
QUICK_SIZES = (100,)
PEERS = ("groupd", "kfake", "Apache Kafka")
CONNECTIONS = 100
GROUP_SIZE = 10
SHORT_ROUNDS = 3
BEATS = 200_000
"""The long run has at least so many heartbeats more than the short one."""

MORE_ROUNDS = 20
"""The long run has at least so many rounds more than the short one. The first round is handled in
full, costs many times as much as those behind it, and is in both runs; with fewer rounds the
difference of the first ones would hide the rest."""

QUICK_BEATS = 20_000
SETTLING_ROUNDS_MAX = 20
REFERENCE = 100
TOPICS = {"bench": 1}
SESSION_MS = "600000"
"""A hundred thousand members take longer to join than the default session lasts."""

SETTINGS = {
    "group.consumer.max.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
}
FIGURE, UNIT = "A steady heartbeat among so many members", "us of CPU of the peer"
NOWHERE = "nowhere"
"""A topic that does not exist: members that own nothing are settled at once."""

_ERROR = Struct(">h")
_EPOCH = Struct(">i")
_MESSAGE_AT = 7


def measure(plan: Plan) -> Iterator[Workload]:
    """Measures workload (j)."""
    sizes = QUICK_SIZES if plan.quick else SIZES
    beats = QUICK_BEATS if plan.quick else BEATS
    peers = plan.among(PEERS)
    costs: dict[int, dict[str, list[float]]] = {}
    for size in sizes:
        notes: dict[str, str] = {}
        name = f"A steady heartbeat among {size:,} members, {CONNECTIONS} connections"
        if not plan.wants(name):
            continue

        def cost(peer: str, size: int = size) -> float:
            return _cost_us(peer, size, beats)

        runs = 1 if plan.quick else plan.runs
        costs[size] = interleaved(runs, peers, cost, notes, (LoadFailed, NoPeer))
        yield Workload(name, UNIT, costs[size], notes, figure=FIGURE, size=size)
    most = sizes[-1]
    if not {most, REFERENCE} <= costs.keys():
        return
    ratios = {
        peer: [
            many / few
            for few, many in zip(costs[REFERENCE][peer], costs[most][peer], strict=False)
            if few
        ]
        for peer in peers
    }
    yield Workload(f"A heartbeat among {most:,} members", f"times one among {REFERENCE}", ratios)


def _cost_us(name: str, members: int, beats: int) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        running(name, Path(directory), TOPICS, durable=False, settings=SETTINGS) as peer,
    ):
        requests = _settled(peer, members)
        long_rounds = SHORT_ROUNDS + max(-(-beats // members), MORE_ROUNDS)
        short_s = _cpu_s(peer, requests * SHORT_ROUNDS)
        long_s = _cpu_s(peer, requests * long_rounds)
        return (long_s - short_s) / ((long_rounds - SHORT_ROUNDS) * members) * 1e6


def _cpu_s(peer: Peer, requests: list[bytes]) -> float:
    """The CPU seconds that `requests` cost. Each goes over the same connection as its
    repetitions."""
    before_s = peer.cpu_seconds()
    replies = once(peer.address, requests, CONNECTIONS).replies
    used_s = peer.cpu_seconds() - before_s
    for reply in replies:
        _epoch(reply)
    return used_s


def _settled(peer: Peer, members: int) -> list[bytes]:
    """The steady heartbeats of members in groups of ten; as many as connections, or a multiple:
    members that are fewer than connections come several times, each time over another one."""
    address = peer.address
    names = [(f"growth-{i // GROUP_SIZE}", f"member-{i:07d}") for i in range(members)]
    joins = [frames.consumer_heartbeat(*name, 0, (NOWHERE,), ()) for name in names]
    epochs = [_epoch(reply) for reply in once(address, joins, CONNECTIONS).replies]
    for _ in range(SETTLING_ROUNDS_MAX):
        beats = [frames.consumer_heartbeat(*n, e) for n, e in zip(names, epochs, strict=True)]
        before = epochs
        epochs = [_epoch(reply) for reply in once(address, beats, CONNECTIONS).replies]
        if epochs == before:
            return beats
    raise LoadFailed("members do not come to rest")


def _epoch(reply: bytes) -> int:
    """The member epoch in a ConsumerGroupHeartbeat reply v1. Raises LoadFailed if it has an
    error."""
    (code,) = _ERROR.unpack_from(reply, _MESSAGE_AT - 2)
    if code:
        raise LoadFailed(f"error {code}")
    at = _MESSAGE_AT + max(reply[_MESSAGE_AT], 1)  # compact nullable message
    at += max(reply[at], 1)  # compact nullable member id
    return int(_EPOCH.unpack_from(reply, at)[0])
