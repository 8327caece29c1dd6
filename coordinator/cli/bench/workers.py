"""One process against several: the same load on both in turn, and what it costs where.

How much more several processes can do is told by CPU time, not by the rate: the generator may need
as much of the cores as they do. A process is at its limit when a core is full; so with a cost of
c seconds per request in the busiest process the limit is 1 / c requests a second. `gain` is the
limit with workers as a multiple of the limit without.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.cli.bench import frames
from coordinator.cli.bench.load import Address, LoadConnection, connect, run_for
from coordinator.cli.bench.workloads import TOPIC, JoinedMembers
from coordinator.cli.kafka import calls
from coordinator.cli.kafka.cluster import Cluster
from coordinator.cli.process import DaemonProcess

ROUNDS = 5

MakeLoads = Callable[[], Awaitable[list[LoadConnection]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """One round: replies a second, and CPU seconds per reply by process, the main one first."""

    rate: float
    cpu_s: tuple[float, ...]

    @property
    def busiest_s(self) -> float:
        return max(self.cpu_s)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians over the rounds. `gains`: of each round."""

    name: str
    one: Measured
    several: Measured
    gains: tuple[float, ...]


class Target:
    """A daemon under load, and where its groups are."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self._places: dict[str, Address] = {}

    def place(self, group: str) -> Address:
        """The address of the group's coordinator."""
        if group not in self._places:
            with Cluster(*self.daemon.kafka) as cluster:
                self._places[group] = calls.find_coordinator(cluster.any(), group)
        return self._places[group]

    async def heartbeats(self, members: int, window: int) -> MakeLoads:
        """Settled KIP-848 members, a connection each."""
        joined = JoinedMembers(self.daemon, members, min(members, 50), self.place)
        await joined.join()
        await joined.settle()

        async def make() -> list[LoadConnection]:
            return [
                await connect(
                    self.place(group),
                    itertools.repeat(
                        frames.consumer_heartbeat(group, member, joined.epochs[member])
                    ),
                    window,
                )
                for group, member in joined.members
            ]

        return make

    async def commits(self, connections: int, partitions: int) -> MakeLoads:
        """Durable OffsetCommits of simple groups, one in flight a connection."""

        async def make() -> list[LoadConnection]:
            groups = [f"commit-{number}" for number in range(connections)]
            return [
                await connect(
                    self.place(group),
                    itertools.repeat(frames.offset_commit(group, TOPIC, partitions, 42)),
                )
                for group in groups
            ]

        return make

    async def measure(self, make: MakeLoads, seconds: float) -> Measured:
        loads = await make()
        before = self.daemon.cpu_by_process()
        elapsed = await run_for(loads, seconds)
        after = self.daemon.cpu_by_process()
        replies = sum(load.replies for load in loads)
        for load in loads:
            load.close()
        return Measured(
            replies / elapsed,
            tuple((after[pid] - spent) / replies for pid, spent in before.items()),
        )


async def compare(
    flags: Sequence[str], workers: int, members: int, seconds: float
) -> list[Comparison]:
    """Both daemons run all the time; the one that has no load costs nothing."""
    with contextlib.ExitStack() as stack:
        one = Target(stack.enter_context(_daemon(flags)))
        several = Target(stack.enter_context(_daemon([*flags, "--workers", str(workers)])))
        found = []
        for window in (1, 8):
            loads = {target: await target.heartbeats(members, window) for target in (one, several)}
            name = f"heartbeats, {members} members, {window} in flight"
            found.append(await _interleaved(name, one, several, loads, seconds))
        for connections, partitions in ((100, 1), (100, 10)):
            loads = {
                target: await target.commits(connections, partitions) for target in (one, several)
            }
            name = f"durable commits of {partitions}, {connections} connections"
            found.append(await _interleaved(name, one, several, loads, seconds))
        return found


@contextlib.contextmanager
def _daemon(flags: Sequence[str]) -> Iterator[DaemonProcess]:
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        DaemonProcess(*flags, data_dir=Path(directory)) as daemon,
    ):
        yield daemon


async def _interleaved(
    name: str, one: Target, several: Target, loads: Mapping[Target, MakeLoads], seconds: float
) -> Comparison:
    rounds = []
    for _ in range(ROUNDS):
        alone = await one.measure(loads[one], seconds)
        rounds.append((alone, await several.measure(loads[several], seconds)))
    gains = tuple(alone.busiest_s / spread.busiest_s for alone, spread in rounds)
    first, second = (_median(side) for side in zip(*rounds, strict=True))
    return Comparison(name, first, second, gains)


def _median(rounds: Sequence[Measured]) -> Measured:
    return Measured(
        statistics.median(one.rate for one in rounds),
        tuple(
            statistics.median(costs) for costs in zip(*(one.cpu_s for one in rounds), strict=True)
        ),
    )


def show(comparisons: Sequence[Comparison], workers: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"one process and {workers} workers; SQLite, synchronous=FULL")
    columns = ("workload", "one: rate", "CPU each", f"{workers}: rate", "main", "workers", "gain")
    for column in columns:
        table.add_column(column, justify="left" if column == "workload" else "right")
    for found in comparisons:
        main, *others = found.several.cpu_s
        table.add_row(
            found.name,
            f"{found.one.rate:,.0f}/s",
            f"{found.one.busiest_s * 1e6:.2f} us",
            f"{found.several.rate:,.0f}/s",
            f"{main * 1e6:.2f} us",
            " ".join(f"{cost * 1e6:.2f}" for cost in others) + " us",
            f"{statistics.median(found.gains):.2f} "
            f"({min(found.gains):.2f}..{max(found.gains):.2f})",
        )
    Console(width=140).print(table)
