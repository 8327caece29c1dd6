"""Rounds of load, a crash at a random moment, a restart, and the question what is left.

One store lives through all rounds and grows. What the moments are drawn from is the seed; how far
the daemon is at such a moment is up to the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from random import Random
from typing import Protocol

from groupd.coordinator.core.partitioning import partition_for
from tests.crash.commits import Committer
from tests.crash.members import ClassicMember, ConsumerMember
from tests.crash.produces import PRODUCERS_TOPIC, Producer
from tests.crash.server import Server
from tests.crash.stores import Arguments
from tests.crash.wire import Connection

COMMITTERS, PRODUCERS, CONSUMER_MEMBERS, CLASSIC_MEMBERS = 12, 3, 3, 2
SHARDS = 50
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
}

KINDS = {"load": 12, "start": 4, "stop": 3, "clean": 1}
"""What is killed, by weight: a daemon under load, one that starts, one that stops; or nothing is
killed and it stops as it should."""
WORKER_KINDS = {**KINDS, "worker": 12}
"""With several processes one of them is killed too, and comes back while the others go on."""
COMMITS_MAX = 120
PROGRESS_TIMEOUT_S = 60.0
CLOSED_WITHIN_S = 2.0
"""How long the end of a process takes to reach its clients, at most."""
LOAD_S, START_S, STOP_S = (0.0, 0.02), (0.0, 0.2), (0.0, 0.03)
"""When the crash comes: after so many commits were acknowledged (the same pace on a slow machine),
and so many seconds after that, or after a start or a stop began."""
PREPARED = 2
"""The number of started processes that wait for their turn. A round that kills a daemon while it
starts takes two of them."""


class Worker(Protocol):
    async def run(self, connection: Connection) -> None:
        """Makes load until the connection ends. Fails on an answer that must not be."""
        ...

    async def check(self, connection: Connection) -> None:
        """Fails unless a new process knows what the last one has said."""
        ...


class Rounds:
    """`run` makes rounds; `counts` says of which kinds. Close it afterwards."""

    def __init__(self, directory: Path, seed: int, store: Arguments, workers: int = 1) -> None:
        self._nodes = workers
        self.counts: Counter[str] = Counter()
        self.starts_s: list[float] = []
        self._random = Random(seed)
        self._directory = directory
        self._arguments = store(directory)
        self.kinds = KINDS
        if workers > 1:
            self._arguments += ["--workers", str(workers)]
            self.kinds = WORKER_KINDS
        for topic, partitions in (("orders", 4), (PRODUCERS_TOPIC, PRODUCERS)):
            self._arguments += ["--topic", f"{topic}:{partitions}"]
        for key, value in SETTINGS.items():
            self._arguments += ["--set", f"{key}={value}"]
        self._prepared: deque[asyncio.Task[Server]] = deque()
        self._processes = 0
        self._servers: list[Server] = []
        self._connections: dict[Worker, Connection] = {}
        """Those of the load."""
        seeds = iter(range(seed * 1000, seed * 1000 + 1000))
        self.committers = [Committer(f"commits-{n}", next(seeds)) for n in range(COMMITTERS)]
        self.producers = [Producer(n, next(seeds)) for n in range(PRODUCERS)]
        self.members = [
            ConsumerMember(f"members-{n % 2}", f"m{n}", next(seeds))
            for n in range(CONSUMER_MEMBERS)
        ]
        self.classic = [ClassicMember(f"classic-{n}") for n in range(CLASSIC_MEMBERS)]

    @property
    def workers(self) -> list[Worker]:
        return [*self.committers, *self.producers, *self.members, *self.classic]

    # Processes

    def _prepare(self) -> None:
        while len(self._prepared) < PREPARED:
            self._processes += 1
            log = self._directory / f"groupd-{self._processes % 8}.log"
            self._prepared.append(asyncio.create_task(Server.prepare(self._arguments, log)))

    async def _next_server(self) -> Server:
        self._prepare()
        server = await self._prepared.popleft()
        self._servers.append(server)
        await server.go()
        return server

    async def _ended(self, server: Server) -> None:
        self._servers.remove(server)
        assert server.errors() == [], "\n".join(server.errors())

    async def close(self) -> None:
        """Ends every process that there still is."""
        for waiting in self._prepared:
            await (await waiting).kill()
        for server in list(self._servers):
            await server.kill()

    # Rounds

    async def run(self, rounds: int, on_round: Callable[[int], None] = lambda number: None) -> None:
        """Fails with the first round that shows a loss; then the store is left as it is."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for number, kind in enumerate(self._drawn(rounds)):
            try:
                await self._round(kind)
            except (AssertionError, ExceptionGroup) as error:
                error.add_note(f"round {number} ({kind}), store in {self._directory}")
                raise
            on_round(number)
        await self._finish(await self._start())

    def _drawn(self, rounds: int) -> list[str]:
        """The kind of each round. If there are enough rounds every kind is among them."""
        every = list(self.kinds) if rounds >= len(self.kinds) else []
        more = self._random.choices(
            list(self.kinds), list(self.kinds.values()), k=rounds - len(every)
        )
        return self._random.sample(every + more, rounds)

    async def _round(self, kind: str) -> None:
        self.counts[kind] += 1
        if kind == "start":
            server = await self._next_server()
            await asyncio.sleep(self._random.uniform(*START_S))
            await server.kill()
            await self._ended(server)
        server = await self._start()
        loads = [
            asyncio.create_task(self._load(worker, self._port(worker, server)))
            for worker in self.workers
        ]
        self._prepare()
        try:
            await self._progress(loads, self._random.randint(0, COMMITS_MAX))
            await asyncio.sleep(self._random.uniform(*LOAD_S))
            if kind == "worker":
                await self._kill_worker(server, loads)
            if kind in ("stop", "clean"):
                server.terminate()
            if kind == "clean":
                assert await server.exit_code() == 0, server.log()
            elif kind == "stop":
                await asyncio.sleep(self._random.uniform(*STOP_S))
        finally:
            await server.kill()  # also after a failure: until then the load goes on
            await asyncio.gather(*loads)
        await self._ended(server)

    async def _kill_worker(self, server: Server, loads: list[asyncio.Task[None]]) -> None:
        """Kills one process of a daemon, that of a group that is drawn. It comes back with what it
        has said; the others go on meanwhile."""
        drawn = self._random.choice(self.committers)
        node = self._node(drawn)
        server.kill_worker(node)
        concerned = [worker for worker in self.workers if self._node(worker) == node]
        hit = [
            load for load, one in zip(loads, self.workers, strict=True) if self._node(one) == node
        ]
        await self._disconnected(hit, concerned)
        others = [load for load in loads if load not in hit]
        await self._progress(others, self._random.randint(1, COMMITS_MAX))
        assert not any(load.done() for load in others), "they are not concerned"
        async with asyncio.timeout(PROGRESS_TIMEOUT_S):
            for worker in concerned:
                while not await server.serves(node, getattr(worker, "group", "")):
                    await asyncio.sleep(0.01)
        for worker in concerned:
            await self._check(worker, server.ports[node])

    async def _disconnected(
        self, loads: Collection[asyncio.Task[None]], workers: Collection[Worker]
    ) -> None:
        """Waits until the load has lost its connections to a killed process. One that the process
        had not accepted yet goes to the next process, so it is closed here."""
        while (await asyncio.wait(loads, timeout=CLOSED_WITHIN_S))[1]:
            for worker in workers:
                if (connection := self._connections.get(worker)) is not None:
                    await connection.close()
        await asyncio.gather(*loads)

    def _node(self, worker: Worker) -> int:
        """The node that a worker talks to; producers go to the main process."""
        group = getattr(worker, "group", None)
        return 0 if group is None else partition_for(group, SHARDS) % self._nodes + 1

    def _port(self, worker: Worker, server: Server) -> int:
        return server.port if self._nodes == 1 else server.ports[self._node(worker)]

    @property
    def commits(self) -> int:
        return sum(committer.commits for committer in self.committers)

    async def _progress(self, loads: list[asyncio.Task[None]], commits: int) -> None:
        """Waits until so many more commits are acknowledged, or a worker has found something
        wrong."""
        goal = self.commits + commits
        async with asyncio.timeout(PROGRESS_TIMEOUT_S):
            while self.commits < goal and not all(load.done() for load in loads):
                await asyncio.sleep(0.001)

    async def _start(self) -> Server:
        """A daemon that serves and has shown that nothing is lost."""
        server = await self._next_server()
        started = time.monotonic()
        await server.ready()
        self.starts_s.append(time.monotonic() - started)
        await self._each(lambda worker: self._check(worker, self._port(worker, server)))
        return server

    async def losses(self) -> set[str]:
        """Starts a daemon and asks for all: the kinds of workers that find something lost."""
        server = await self._next_server()
        await server.ready()
        found = set()
        for worker in self.workers:
            try:
                await self._check(worker, self._port(worker, server))
            except AssertionError:
                found.add(type(worker).__name__)
        await server.kill()
        return found

    async def _finish(self, server: Server) -> None:
        server.terminate()
        assert await server.exit_code() == 0, server.log()
        await self._ended(server)

    async def _each(self, job: Callable[[Worker], Coroutine[None, None, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            for worker in self.workers:
                group.create_task(job(worker))

    async def _load(self, worker: Worker, port: int) -> None:
        try:
            connection = await Connection.open(port)
        except OSError:
            return  # killed already
        self._connections[worker] = connection
        try:
            await worker.run(connection)
        finally:
            await connection.close()

    @staticmethod
    async def _check(worker: Worker, port: int) -> None:
        connection = await Connection.open(port)
        try:
            await worker.check(connection)
        finally:
            await connection.close()
