"""Workers without processes: the other end of the channel is here, time stands still."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.workers.channel import Answer, Channel
from groupd.coordinator.workers.link import WorkerLink, WorkerNode
from groupd.coordinator.workers.messages import Health, Start, WorkerOperation, encode
from groupd.protocol.messages.cluster import Node
from groupd.testing.clock import ManualClock
from tests.support.loop_turns import until
from tests.support.remote_store import connect, nothing

TIMEOUT_MS = 2000


class StubWorker:
    """One life of a worker; answers everything at once unless `deaf` or `slow_start`."""

    def __init__(self, *, deaf: bool = False, slow_start: bool = False) -> None:
        self.channel = Channel(self._serve)
        self.deaf = deaf
        self.asked: list[WorkerOperation] = []
        self.health = Health()
        self.killed = False
        self.started: asyncio.Future[bytes] | None = None
        self.on_stop: asyncio.Future[bytes] | None = None
        self.failing: dict[WorkerOperation, Exception] = {}
        self._slow_start = slow_start
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.pid = 4711

    def _serve(self, operation: WorkerOperation, body: bytes) -> Answer:
        self.asked.append(operation)
        if operation in self.failing:
            raise self.failing[operation]
        if operation is WorkerOperation.STOP and self.on_stop is not None:
            return self.on_stop
        if self.deaf or (operation is WorkerOperation.START and self._slow_start):
            self.started = asyncio.get_running_loop().create_future()
            return self.started
        reports = (WorkerOperation.PING, WorkerOperation.START)
        return encode(self.health) if operation in reports else b""

    def exit(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)
        self.channel.abort()

    def kill(self) -> None:
        self.killed = True
        self.exit(-9)

    async def wait(self) -> int:
        return await self._code


class Lives:
    """A link and the lives of its worker. `script`: makers of the next ones; then plain ones."""

    def __init__(self, *script: Callable[[], StubWorker]) -> None:
        self.clock = ManualClock()
        self.workers: list[StubWorker] = []
        self.cannot_spawn = 0
        self._script = list(script)
        self.bound = socket.socket()
        self.link = WorkerLink(
            WorkerNode(Node(1, "127.0.0.1", 9093), (0, 2, 4), self.bound),
            nothing,
            self._start,
            self._spawn,
            self.clock,
            TIMEOUT_MS,
        )

    @property
    def worker(self) -> StubWorker:
        return self.workers[-1]

    def _start(self) -> Start:
        return Start(
            1,
            "127.0.0.1",
            9093,
            (0, 2, 4),
            CoordinatorConfig(),
            MetadataImage(),
            {},
            "text",
            "info",
            "cluster",
        )

    async def _spawn(self, node_id: int, bound: socket.socket, channel: Channel) -> StubWorker:
        if self.cannot_spawn:
            self.cannot_spawn -= 1
            raise OSError("no more processes")
        worker = self._script.pop(0)() if self._script else StubWorker()
        await connect(channel, worker.channel)
        self.workers.append(worker)
        return worker

    async def serving(self, lives: int) -> None:
        await until(lambda: len(self.workers) == lives and self.link.serving)

    async def down(self) -> None:
        """Waits until the worker has ended and waits for its next life."""
        await until(lambda: not self.link.serving and self.clock.next_timer_ms() is not None)

    async def close(self) -> None:
        await self.link.stop(1)
        self.bound.close()
