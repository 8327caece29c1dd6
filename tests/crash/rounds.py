"""Rounds of load, a crash at a random moment, a restart, and the question what is left.

One store lives through all rounds and grows. What the moments are drawn from is the seed; how far
the daemon is at such a moment is up to the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Protocol

from tests.crash.commits import Committer
from tests.crash.members import ClassicMember, ConsumerMember
from tests.crash.produces import PRODUCERS_TOPIC, Producer
from tests.crash.server import Server
from tests.crash.shares import ShareMember
from tests.crash.stores import Arguments
from tests.crash.wire import Connection

COMMITTERS, PRODUCERS, CONSUMER_MEMBERS, CLASSIC_MEMBERS, SHARE_MEMBERS = 12, 3, 3, 2, 2
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
}

KINDS = {"load": 12, "start": 4, "stop": 3, "clean": 1}
"""What is killed, by weight: a daemon under load, one that starts, one that stops; or nothing is
killed and it stops as it should."""
COMMITS_MAX = 120
PROGRESS_TIMEOUT_S = 60.0
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

    def __init__(self, directory: Path, seed: int, store: Arguments) -> None:
        self.counts: Counter[str] = Counter()
        self.starts_s: list[float] = []
        self._random = Random(seed)
        self._directory = directory
        self._arguments = store(directory)
        for topic, partitions in (("orders", 4), (PRODUCERS_TOPIC, PRODUCERS)):
            self._arguments += ["--topic", f"{topic}:{partitions}"]
        for key, value in SETTINGS.items():
            self._arguments += ["--set", f"{key}={value}"]
        self._prepared: deque[asyncio.Task[Server]] = deque()
        self._processes = 0
        self._servers: list[Server] = []
        seeds = iter(range(seed * 1000, seed * 1000 + 1000))
        self.committers = [Committer(f"commits-{n}", next(seeds)) for n in range(COMMITTERS)]
        self.producers = [Producer(n, next(seeds)) for n in range(PRODUCERS)]
        self.members = [
            ConsumerMember(f"members-{n % 2}", f"m{n}", next(seeds))
            for n in range(CONSUMER_MEMBERS)
        ]
        self.classic = [ClassicMember(f"classic-{n}") for n in range(CLASSIC_MEMBERS)]
        self.sharing = [ShareMember(f"share-{n}", n, next(seeds)) for n in range(SHARE_MEMBERS)]

    @property
    def workers(self) -> list[Worker]:
        return [*self.committers, *self.producers, *self.members, *self.classic, *self.sharing]

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
        every = list(KINDS) if rounds >= len(KINDS) else []
        more = self._random.choices(list(KINDS), list(KINDS.values()), k=rounds - len(every))
        return self._random.sample(every + more, rounds)

    async def _round(self, kind: str) -> None:
        self.counts[kind] += 1
        if kind == "start":
            server = await self._next_server()
            await asyncio.sleep(self._random.uniform(*START_S))
            await server.kill()
            await self._ended(server)
        server = await self._start()
        loads = [asyncio.create_task(self._load(worker, server.port)) for worker in self.workers]
        self._prepare()
        try:
            await self._progress(loads, self._random.randint(0, COMMITS_MAX))
            await asyncio.sleep(self._random.uniform(*LOAD_S))
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
        await self._each(lambda worker: self._check(worker, server.port))
        return server

    async def losses(self) -> set[str]:
        """Starts a daemon and asks for all: the kinds of workers that find something lost."""
        server = await self._next_server()
        await server.ready()
        found = set()
        for worker in self.workers:
            try:
                await self._check(worker, server.port)
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
