"""One process against several: the same load on both in turn, and what it costs where.

How much more several processes can do is told by CPU time, not by the rate: the generator may need
as much of the cores as they do. A process is at its limit when a core is full; so with a cost of
c seconds per request in the busiest process the limit is 1 / c requests a second. The gain is the
limit with workers as a multiple of the limit without.

Processes that share too few cores cost more each: they are switched, lose their caches, and find
less to do at a time. So the gain is measured twice: with all workers under load, on these cores,
and with the whole load on one worker, whose cost is then compared like with like; several on cores
of their own have that cost each. The main process's cost counts in full in both.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from tests.bench import frames
from tests.bench.daemon_process import DaemonProcess
from tests.bench.self.load import Address, LoadConnection, connect, run_for
from tests.bench.self.members import GROUP_SIZE, TOPIC, JoinedMembers

ROUNDS = 5

MakeLoads = Callable[[], Awaitable[list[LoadConnection]]]


class Measured(Struct, frozen=True):
    """One round: replies a second, and CPU seconds per reply by process, the main one first."""

    rate: float
    cpu_s: tuple[float, ...]

    @property
    def busiest_s(self) -> float:
        return max(self.cpu_s)


class Comparison(Struct, frozen=True):
    """Medians over the rounds, and the gains of each round: workers together, and alone."""

    name: str
    one: Measured
    several: Measured
    alone: Measured
    gains: tuple[float, ...]
    gains_alone: tuple[float, ...]


class Target:
    """A daemon under load, and where its groups are."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self._places: dict[str, Address] = {}

    def place(self, group: str) -> Address:
        """The address of the group's coordinator."""
        if group not in self._places:
            with KafkaCluster([self.daemon.kafka]) as cluster:
                self._places[group] = calls.find_coordinator(cluster.any(), group)
        return self._places[group]

    def groups(self, stem: str, count: int, *, alone: bool) -> list[str]:
        """Group ids of all workers, or all of one."""
        found: list[str] = []
        for number in itertools.count():
            if len(found) == count:
                return found
            group = f"{stem}-alone-{number}" if alone else f"{stem}-{number}"
            if not alone or self.place(group) == self.place(f"{stem}-alone-0"):
                found.append(group)
        return found

    async def heartbeats(self, members: int, window: int, *, alone: bool = False) -> MakeLoads:
        """Settled KIP-848 members, a connection each."""
        groups = self.groups("beat", -(-members // GROUP_SIZE), alone=alone)
        names = [(groups[n // GROUP_SIZE], f"member-{n:07d}") for n in range(members)]
        joined = JoinedMembers(names, min(members, 50), self.place)
        await joined.join()
        await joined.settle()

        async def make() -> list[LoadConnection]:
            return [
                await connect(
                    self.place(group),
                    itertools.repeat(joined.steady(group, member)),
                    window,
                )
                for group, member in joined.members
            ]

        return make

    async def commits(self, connections: int, partitions: int, *, alone: bool = False) -> MakeLoads:
        """Durable OffsetCommits of simple groups, one in flight a connection."""
        groups = self.groups("commit", connections, alone=alone)

        async def make() -> list[LoadConnection]:
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
            loads = [
                (one, await one.heartbeats(members, window)),
                (several, await several.heartbeats(members, window)),
                (several, await several.heartbeats(members, window, alone=True)),
            ]
            name = f"heartbeats, {members} members, {window} in flight"
            found.append(await _interleaved(name, loads, workers, seconds))
        for connections, partitions in ((100, 1), (100, 10)):
            loads = [
                (one, await one.commits(connections, partitions)),
                (several, await several.commits(connections, partitions)),
                (several, await several.commits(connections, partitions, alone=True)),
            ]
            name = f"durable commits of {partitions}, {connections} connections"
            found.append(await _interleaved(name, loads, workers, seconds))
        return found


@contextlib.contextmanager
def _daemon(flags: Sequence[str]) -> Iterator[DaemonProcess]:
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        DaemonProcess(*flags, data_dir=Path(directory)) as daemon,
    ):
        yield daemon


async def _interleaved(
    name: str, loads: Sequence[tuple[Target, MakeLoads]], workers: int, seconds: float
) -> Comparison:
    rounds = [
        [await target.measure(make, seconds) for target, make in loads] for _ in range(ROUNDS)
    ]
    one, several, alone = (_median(side) for side in zip(*rounds, strict=True))
    return Comparison(
        name,
        one,
        several,
        alone,
        tuple(single.busiest_s / spread.busiest_s for single, spread, _ in rounds),
        tuple(single.busiest_s / _spread(whole, workers) for single, _, whole in rounds),
    )


def _spread(alone: Measured, workers: int) -> float:
    """The cost in the busiest process if so many workers shared what one did alone."""
    main, *others = alone.cpu_s
    return max(main, max(others) / workers)


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
    columns = ("workload", "one: rate", "CPU", f"{workers}: rate", "main", "workers", "gain")
    for column in (*columns, "a worker alone", "gain"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for found in comparisons:
        main, *others = found.several.cpu_s
        table.add_row(
            found.name,
            f"{found.one.rate:,.0f}/s",
            f"{found.one.busiest_s * 1e6:.1f} us",
            f"{found.several.rate:,.0f}/s",
            f"{main * 1e6:.1f} us",
            " ".join(f"{cost * 1e6:.1f}" for cost in others) + " us",
            _gain(found.gains),
            f"{max(found.alone.cpu_s[1:]) * 1e6:.1f} us",
            _gain(found.gains_alone),
        )
    Console(width=150).print(table)


def _gain(gains: Sequence[float]) -> str:
    return f"{statistics.median(gains):.2f} ({min(gains):.2f}..{max(gains):.2f})"
