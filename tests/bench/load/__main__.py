"""`python -m tests.bench.load`: steady loads of all peers in turn, as Markdown."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import Workload, interleaved, machine, table
from tests.bench.load.generator import LoadFailed
from tests.bench.load.workloads import TOPICS, Load, loads
from tests.bench.peers.processes import STARTERS, NoPeer, Peer, running


class Measured:
    """Runs one workload of one peer at a time, each on a fresh broker; keeps what else was seen."""

    def __init__(self, load: Load, seconds: float) -> None:
        self.cpu_us: dict[str, list[float]] = {}
        self.own_cpu_us: list[float] = []
        self.notes: dict[str, str] = {}
        self._load = load
        self._seconds = seconds

    def run(self, name: str) -> float | None:
        """Requests a second; None = it cannot, and the note says why."""
        try:
            with (
                tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
                running(name, Path(directory), TOPICS, durable=self._load.durable) as peer,
            ):
                return self._measure(peer)
        except (LoadFailed, NoPeer) as error:
            self.notes[name] = f"cannot: {error}"
            return None

    def _measure(self, peer: Peer) -> float:
        result = self._load.run(peer, self._seconds)
        if result.changed or result.unanswered or not result.count:
            raise LoadFailed(f"{result.changed} replies changed, {result.unanswered} missing")
        self.cpu_us.setdefault(peer.name, []).append(result.peer_cpu_us)
        self.own_cpu_us.append(result.cpu_seconds / result.count * 1e6)
        return result.count / result.seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.load", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of every workload and peer")
    parser.add_argument("--seconds", type=float, default=5.0, help="of every run")
    parser.add_argument("--sizes", default="100,1000,10000", help="connections with heartbeats")
    parser.add_argument("--peers", default=",".join(STARTERS), help="some of them")
    parser.add_argument("--only", default="", help="workloads with this in their name")
    options = parser.parse_args()
    peers = options.peers.split(",")
    if unknown := set(peers) - STARTERS.keys():
        sys.exit(f"no peer {', '.join(sorted(unknown))}: there are {', '.join(STARTERS)}")
    print(machine() + "\n")
    for load in loads([int(size) for size in options.sizes.split(",")]):
        if options.only not in load.name:
            continue
        measured = Measured(load, options.seconds)
        samples = interleaved(options.runs, peers, measured.run)
        print(table(Workload(load.name, "requests a second", samples, measured.notes)))
        cpu = {peer: measured.cpu_us.get(peer, []) for peer in peers}
        cpu_table = Workload(f"{load.name}: CPU of the peer", "us a request", cpu, measured.notes)
        print(table(cpu_table))
        if own := measured.own_cpu_us:
            print(f"The generator itself: {statistics.median(own):.1f} us a request.\n", flush=True)


if __name__ == "__main__":
    main()
