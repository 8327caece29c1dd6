"""Runs `members.c`: the members of a group, against any Kafka address."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.processes import Peer

MEMBERS = Path(__file__).parent / "target" / "members"
SLACK_S = 60.0
TOPIC = "bench"
PARTITIONS_EACH = 2


class StormFailed(Exception):
    """The members gave up: an error that clients do not get over, or no end in time."""


@dataclass(frozen=True, slots=True)
class Leave:
    """How long it took after a member had left: until its partitions were owned again, until all
    was stable."""

    owned_ms: float
    stable_ms: float
    requests: int


@dataclass(frozen=True, slots=True)
class Storm:
    """A storm from the first join on, with `requests` and `cpu_ms` of the members until they were
    stable at `epoch`. `state`: what the coordinator calls it, "" if it cannot be asked; `overlaps`:
    partitions that were given to a second owner; `errors`: of requests, except those that are part
    of a rebalance; `peer_cpu_ms`: what the coordinator used, over everything."""

    stable_ms: float
    requests: int
    cpu_ms: float
    epoch: int
    state: str
    leaves: tuple[Leave, ...]
    overlaps: int
    errors: int
    peer_cpu_ms: float


def storm(
    peer: Peer,
    protocol: str,
    members: int,
    *,
    interval_ms: int,
    partitions: int = 0,
    group: str = "storm",
    leaves: int = 0,
    timeout_s: int = 120,
) -> Storm:
    """Runs a storm. `protocol`: consumer or classic; `partitions` of the topic, two for each member
    unless it says otherwise; `leaves`: how many members leave after that, one by one. Raises
    StormFailed."""
    if not MEMBERS.is_file():
        raise RuntimeError("the members are not built: run `make bench-peers`")
    sizes = (members, partitions or members * PARTITIONS_EACH, interval_ms, timeout_s, leaves)
    command = [str(MEMBERS), peer.host, str(peer.port), protocol, group, TOPIC, *map(str, sizes)]
    before_s = peer.cpu_seconds()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s * (leaves + 1) + SLACK_S,
    )
    if done.returncode:
        raise StormFailed(done.stderr.strip() or f"ended by signal {-done.returncode}")
    figures = json.loads(done.stdout)
    figures["leaves"] = tuple(Leave(**leave) for leave in figures["leaves"])
    found = Storm(**figures, peer_cpu_ms=(peer.cpu_seconds() - before_s) * 1000)
    if found.overlaps:
        raise StormFailed(f"{found.overlaps} partitions had two owners")
    return found
