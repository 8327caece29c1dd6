"""One worker as the main process sees it, through all its lives.

The process is started, gets a START call, and is watched with pings. When it ends, by an exit, a
signal or because it leaves pings unanswered, it is started again. Unanswered pings are counted, not
timed: after a machine has slept all of them are late, although no process hangs. A worker whose
channel was cut off is killed before the next process starts, and the owner epochs of the next one
fence what the old one may still write.

A worker that has never served is given up after `FIRST_LIVES` processes: what keeps it from
starting was there when the daemon was started, and the user who started it is still looking. A
worker that has served is never given up: the other workers serve, and what keeps it away may pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from socket import socket
from typing import Any

import structlog
from msgspec import Struct

from groupd.coordinator.failures import DaemonFailed
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.workers.channel import Answer, Channel, ChannelLost
from groupd.coordinator.workers.messages import (
    Health,
    Start,
    WorkerOperation,
    decode_answer,
    encode,
)
from groupd.coordinator.workers.spawn import Spawn, WorkerProcess
from groupd.protocol.errors import ApiError
from groupd.protocol.messages.cluster import Node
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.workers")

PING_INTERVAL_MS = 500
BACKOFF_MS, BACKOFF_MAX_MS = 200, 10_000
FIRST_LIVES = 5
"""How many processes are started for a worker that has never served."""
STEADY_MS = 10_000
"""A worker that has served for this long is started again without a pause."""
FIRST_PINGS = 120
"""Pings that a worker may leave unanswered while its process starts."""


class WorkerState(Enum):
    STARTING = "starting"
    SERVING = "serving"
    DOWN = "down"
    STOPPED = "stopped"


class WorkerNode(Struct, frozen=True):
    """What stays the same when a worker is restarted: the node that it is for clients, its shards,
    and the socket on which it listens, which the main process has bound."""

    node: Node
    shards: tuple[int, ...]
    bound: socket


class WorkerLink:
    """`serve(operation, body)` answers what the worker asks, `make_start()` makes its START.
    `timeout_ms`: how long it may leave pings unanswered."""

    def __init__(
        self,
        worker: WorkerNode,
        serve: Callable[[WorkerOperation, bytes], Answer],
        make_start: Callable[[], Start],
        spawn: Spawn,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        self.worker = worker
        self.state = WorkerState.STARTING
        self.health = Health()
        self.restarts = 0
        self.pid: int | None = None
        self._serve = serve
        self._make_start = make_start
        self._spawn = spawn
        self._clock = clock
        self._pings_max = max(1, timeout_ms // PING_INTERVAL_MS)
        self._channel: Channel | None = None
        self._process: WorkerProcess | None = None
        self._start_sent = False
        self._heard = False
        """Whether the process has answered: until then it loads its modules, and has no clients."""
        self._stopping = asyncio.Event()
        self._backoff_ms = 0
        self._served_once = False
        """Whether the worker has served, in any life."""
        self._settled = asyncio.Event()
        """Set when the worker has served once, or is given up."""
        self._failures = 0
        """Lives in a row in which the worker did not get as far as to serve."""
        self._last_reason = ""
        self._reason = ""
        self._task: asyncio.Task[None] | None = None
        self._timer: TimerHandle | None = None
        self._unanswered = 0
        self._unacknowledged: set[asyncio.Future[bytes]] = set()

    @property
    def node_id(self) -> int:
        return self.worker.node.node_id

    @property
    def serving(self) -> bool:
        return self.state is WorkerState.SERVING

    # Life ---------------------------------------------------------------------------------

    async def launch(self) -> None:
        """Start the process; it waits for `supervise`. Raises OSError."""
        self._channel = Channel(self._serve)
        self._start_sent = self._heard = False
        self._process = await self._spawn(self.node_id, self.worker.bound, self._channel)
        self.pid = self._process.pid

    def supervise(self) -> None:
        """From now on see to it that the worker is there."""
        self._task = asyncio.get_running_loop().create_task(
            self._supervise(), name=f"worker-{self.node_id}"
        )

    async def first_served(self) -> None:
        """Waits until the worker has served once. Raises DaemonFailed when it is given up."""
        await self._settled.wait()
        if not self._served_once:
            raise DaemonFailed(f"worker {self.node_id} cannot be started{self.trouble}")

    @property
    def trouble(self) -> str:
        """What to add to the news that the worker does not serve."""
        return f": {self._last_reason} ({self._failures} times in a row)" if self._failures else ""

    async def _supervise(self) -> None:
        while not self._stopping.is_set():
            served_ms = await self._one_life()
            if self._stopping.is_set():
                return
            self._last_reason = self._reason
            self._failures = self._failures + 1 if served_ms is None else 0
            if self._failures == FIRST_LIVES and not self._served_once:
                self._settled.set()
                return
            self.restarts += 1
            steady = (served_ms or 0) >= STEADY_MS
            self._backoff_ms = (
                0 if steady else min(max(2 * self._backoff_ms, BACKOFF_MS), BACKOFF_MAX_MS)
            )
            log.error(
                "worker has ended; it is started again",
                worker=self.node_id,
                reason=self._reason,
                delay_ms=self._backoff_ms,
            )
            await self._pause(self._backoff_ms)

    async def _one_life(self) -> int | None:
        """Runs one life of the worker, until its process is gone. Returns for how long it has
        served, in ms; None: it has not."""
        since_ms: int | None = None
        self._reason = ""
        self.state = WorkerState.STARTING
        try:
            if self._process is None:
                await self.launch()
            if self._stopping.is_set():
                return None
            assert self._channel is not None
            starting = self._channel.start_call(WorkerOperation.START, encode(self._make_start()))
            self._start_sent = True
            self._unanswered = self._pings_max - FIRST_PINGS
            self._ping(self._channel)
            self.health = decode_answer(WorkerOperation.START, await starting)
            since_ms = self._clock.now().monotonic_ms
            self.state = WorkerState.SERVING
            self._failures = 0
            self._served_once = True
            self._settled.set()
            log.info("worker serves", worker=self.node_id, pid=self.pid)
            await self._channel.lost.wait()
        except (LogError, ApiError, ValueError, OSError) as error:
            if not isinstance(error, ChannelLost):  # else its exit code says more
                self._reason = self._reason or str(error)
            if self._stopping.is_set() and self._channel is not None and self._start_sent:
                await self._channel.lost.wait()  # it gives up its start to stop in order
        except Exception as error:
            # A bug of ours, which must not leave the worker's groups without a coordinator.
            log.exception("worker cannot be kept", worker=self.node_id)
            self._reason = f"{type(error).__name__}: {error}"
        finally:
            self.state = WorkerState.STOPPED if self._stopping.is_set() else WorkerState.DOWN
            await self._bury()
        return None if since_ms is None else self._clock.now().monotonic_ms - since_ms

    async def _bury(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        channel, process = self._channel, self._process
        self._channel = self._process = self.pid = None
        self.health = Health()
        self._start_sent = self._heard = False
        if channel is not None:
            channel.abort()
        if process is not None:
            process.kill()
            code = await process.wait()
            self._reason = self._reason or f"exit code {code}"

    async def _pause(self, delay_ms: int) -> None:
        """Waits for so long, or until the link is stopped."""
        if delay_ms:
            at_ms = self._clock.now().monotonic_ms + delay_ms
            over = asyncio.Event()
            timer = self._clock.call_at(at_ms, over.set)
            waits = [asyncio.ensure_future(one.wait()) for one in (over, self._stopping)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            timer.cancel()
            for one in waits:
                one.cancel()

    async def stop(self, timeout_s: float) -> None:
        """Stops the worker in order: what is under way is answered. Kills it if it takes longer,
        and at once if it has not answered anything yet."""
        self._stopping.set()
        channel = self._channel
        if channel is not None and self._heard:
            try:
                async with asyncio.timeout(timeout_s):
                    await channel.call(WorkerOperation.STOP)
            except (TimeoutError, LogError) as error:
                log.warning(
                    "worker did not stop in order",
                    worker=self.node_id,
                    reason=str(error) or f"it takes longer than {timeout_s} s",
                )
        if channel is not None:
            channel.close()
        if self._task is None:
            await self._bury()
            return
        await asyncio.wait([self._task])

    # Watching -----------------------------------------------------------------------------

    def _ping(self, channel: Channel) -> None:
        if channel is not self._channel or channel.lost.is_set():
            return
        if self._unanswered >= self._pings_max:
            self._reason = f"no answer for {self._pings_max * PING_INTERVAL_MS} ms"
            channel.abort()
            return
        self._unanswered += 1
        try:
            channel.start_call(WorkerOperation.PING).add_done_callback(self._answered)
        except LogError as error:
            log.warning("worker cannot be asked", worker=self.node_id, reason=str(error))
        self._timer = self._clock.call_at(
            self._clock.now().monotonic_ms + PING_INTERVAL_MS, lambda: self._ping(channel)
        )

    def _answered(self, future: asyncio.Future[bytes]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        self._unanswered, self._heard = 0, True
        self.health = decode_answer(WorkerOperation.PING, future.result())

    # Asking -------------------------------------------------------------------------------

    async def ask(self, operation: WorkerOperation, question: Any = None) -> Any:
        """The answer, see `messages.CALLS`. Raises LogError while the worker does not serve, and
        what it answers with."""
        if self._channel is None or not self.serving:
            raise LogError(f"worker {self.node_id} is {self.state.value}")
        return decode_answer(operation, await self._channel.call(operation, encode(question)))

    def tell(self, operation: WorkerOperation, body: bytes) -> None:
        """Send a change of topics or configs to a worker that has had its START; others get all of
        them in theirs. A worker that cannot take it would go on with old values, so it is
        restarted."""
        channel = self._channel
        if channel is None or not self._start_sent or channel.lost.is_set():
            return
        try:
            future = channel.start_call(operation, body)
        except LogError as error:
            self._reason = str(error)
            channel.abort()
            return
        self._unacknowledged.add(future)
        future.add_done_callback(lambda done: self._acknowledged(channel, done))

    def _acknowledged(self, channel: Channel, done: asyncio.Future[bytes]) -> None:
        self._unacknowledged.discard(done)
        error = None if done.cancelled() else done.exception()
        if error is not None and not channel.lost.is_set():
            self._reason = f"it cannot take in news: {error}"
            channel.abort()

    def behind(self) -> set[asyncio.Future[bytes]]:
        """Changes that the serving worker has not confirmed yet."""
        return set(self._unacknowledged) if self.serving else set()
