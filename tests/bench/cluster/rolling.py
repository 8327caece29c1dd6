"""A rolling restart of three nodes under 300 consumers of KIP-848 groups: errors that a client does
not repeat by itself, rebalances, and how long a member was without an answer."""

from __future__ import annotations

import asyncio
import signal
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.bench import frames
from tests.bench.cluster.client import RETRIABLE, RETRY_S, Finder
from tests.bench.cluster.nodes import TOPIC, Address, BenchCluster, running_cluster
from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.support.postgres import running_postgres

NAME = "Rolling restart of three nodes under 300 consumers"
MEMBERS, GROUP_SIZE, PARTITIONS = 300, 10, 20
HEARTBEAT_S = 0.5
SETTLE_S, REST_S = 60.0, 3.0
RUNS = 3
PEER = "groupd, 3 nodes"


class Consumer:
    """A member that heartbeats and commits what it owns, as a client does. `errors`: what it could
    not repeat; `longest_s`: the longest time between two answers."""

    def __init__(self, group: str, name: str, nodes: Sequence[Address], first: int) -> None:
        self.group, self.name = group, name
        self.epoch = 0
        self.owned: frames.Assigned = ()
        self.errors: Counter[int] = Counter()
        self.retried = 0
        self.longest_s = 0.0
        self._finder = Finder(group, nodes, first)
        self._answered = 0.0
        self._stopping = False

    def begin(self) -> None:
        """Count from now on."""
        self.errors.clear()
        self.retried, self.longest_s = 0, 0.0

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        while not self._stopping:
            await self._repeat(self._heartbeat)
            if self.epoch > 0 and self.owned:
                await self._repeat(self._commit)
            await asyncio.sleep(HEARTBEAT_S)
        self._finder.close()

    async def _repeat(self, call) -> None:  # type: ignore[no-untyped-def]
        while not self._stopping:
            code = await call()
            if code == 0:
                now = time.perf_counter()
                if self._answered:
                    self.longest_s = max(self.longest_s, now - self._answered)
                self._answered = now
                return
            self.retried += 1
            if code is not None and code not in RETRIABLE:
                self.errors[code] += 1
                self.epoch, self.owned = 0, ()
                return
            if code is not None:
                self._finder.moved()
            await asyncio.sleep(RETRY_S)

    async def _heartbeat(self) -> int | None:
        whole = (TOPIC,) if self.epoch == 0 else None
        says = frames.consumer_heartbeat(self.group, self.name, self.epoch, whole, self.owned)
        reply = await self._finder.ask(says)
        if reply is None:
            return None
        heard = frames.heartbeat_reply(reply)
        if heard.error == 0:
            self.epoch = heard.epoch
            self.owned = self.owned if heard.assigned is None else heard.assigned
        return heard.error

    async def _commit(self) -> int | None:
        at = (self.epoch, self.name)
        reply = await self._finder.ask(frames.offset_commit(self.group, TOPIC, 1, 1, *at))
        return None if reply is None else int(struct.unpack_from(">h", reply, len(reply) - 5)[0])


def measure(plan: Plan) -> Iterator[Workload]:
    if not plan.wants(NAME):
        return
    errors, rebalances, pauses = [], [], []
    members = 20 if plan.quick else MEMBERS
    with running_postgres() as server, running_cluster(server, 3, partitions=PARTITIONS) as cluster:
        for run in range(1 if plan.quick else RUNS):
            failed, changed, longest_s = asyncio.run(_run(cluster, members, run))
            errors.append(float(failed))
            rebalances.append(float(changed))
            pauses.append(longest_s)
            cluster.shared()
    yield Workload(f"{NAME}: errors that a client does not repeat", "errors", {PEER: errors})
    yield Workload(f"{NAME}: groups that rebalanced", "groups", {PEER: rebalances})
    yield Workload(f"{NAME}: longest time of a member without an answer", "s", {PEER: pauses})


async def _run(cluster: BenchCluster, members: int, run: int) -> tuple[int, int, float]:
    consumers = [
        Consumer(f"roll-{run}-{n // GROUP_SIZE}", f"member-{run}-{n}", cluster.addresses, n)
        for n in range(members)
    ]
    tasks = [asyncio.create_task(one.run()) for one in consumers]
    await _at_rest(consumers)
    before = [one.epoch for one in consumers]
    for one in consumers:
        one.begin()
    for daemon in cluster.daemons:
        daemon.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(daemon.process.wait_exit, 10)
        daemon.process.close()
        await asyncio.to_thread(daemon.start)
    await asyncio.sleep(REST_S)
    changed = {
        one.group for one, epoch in zip(consumers, before, strict=True) if one.epoch != epoch
    }
    errors: Counter[int] = sum((one.errors for one in consumers), Counter())
    if errors:
        print(f"errors: {dict(errors)}")
    for one in consumers:
        one.stop()
    await asyncio.gather(*tasks)
    return errors.total(), len(changed), max(one.longest_s for one in consumers)


async def _at_rest(consumers: Sequence[Consumer]) -> None:
    """Waits until nothing has moved for a while."""
    deadline, quiet_since = time.perf_counter() + SETTLE_S, time.perf_counter()
    before: list[tuple[int, frames.Assigned]] = []
    while time.perf_counter() < quiet_since + REST_S:
        await asyncio.sleep(0.1)
        now = [(one.epoch, one.owned) for one in consumers]
        if now != before or not all(epoch > 0 and owned for epoch, owned in now):
            quiet_since = time.perf_counter()
        before = now
        assert time.perf_counter() < deadline, "members do not come to rest"
