"""How requests write into partitions: in the order of their arrival, and all batches of a request
in one call. An append that fails drops its partitions: their next user reads the store. An append
goes on when its client hangs up. `PartitionServer` waits for them before partitions are given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import Append, LogError, LogFenced, LogUncertain
from groupd.storage.units import Unit

AppendWriter = Callable[[Sequence[Append]], Awaitable[None]]
"""`PartitionLogs.append`, possibly with group commit behind it. Calls must be served in order."""

Staged = tuple[PartitionLog, Append]


class Appends:
    """Everything of the data plane that is on its way into the store."""

    def __init__(self, partitions: Partitions, writer: AppendWriter) -> None:
        self._partitions = partitions
        self._writer = writer
        self._tasks: set[asyncio.Task[ApiError | None]] = set()

    def start(self, staged: Sequence[Staged]) -> asyncio.Task[ApiError | None]:
        """The task's result: why nothing was written as far as we know; None if all is durable
        and readable. Await it shielded."""
        task = asyncio.create_task(self._run(staged))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self) -> None:
        """Wait for the appends that are under way now."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Wait for the appends under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run(self, staged: Sequence[Staged]) -> ApiError | None:
        try:
            await self._writer([append for _, append in staged])
        except LogFenced as error:
            self._drop(staged)
            # Clients look for the leader again and come back.
            return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error))
        except LogUncertain as error:
            self._drop(staged)
            # A client must not believe that nothing was written: librdkafka would then send the
            # same records in other batches, which are no duplicates of those that may be there.
            return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error))
        except LogError as error:
            self._drop(staged)
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except BaseException:
            self._drop(staged)
            raise
        for log, append in staged:
            log.durable(append)
        return None

    def _drop(self, staged: Sequence[Staged]) -> None:
        for log, _ in staged:
            self._partitions.drop(log)


class Ticket:
    """A place in the queues of some keys: `await wait()`, do the work, `leave()` in any case."""

    __slots__ = ("_before", "_keys", "_last", "_left")

    def __init__(self, last: dict[str, asyncio.Future[None]], keys: Iterable[str]) -> None:
        self._keys = tuple(keys)
        self._last = last
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._before = {last[key] for key in self._keys if key in last}
        for key in self._keys:
            last[key] = self._left

    async def wait(self) -> None:
        for before in self._before:
            await asyncio.shield(before)

    def leave(self) -> None:
        pending = [before for before in self._before if not before.done()]
        if pending:
            # Cancelled while waiting: those behind must still wait for those in front.
            asyncio.gather(*pending).add_done_callback(lambda _: self._finish())
        else:
            self._finish()

    def _finish(self) -> None:
        self._left.set_result(None)
        for key in self._keys:
            if self._last.get(key) is self._left:
                del self._last[key]


class ArrivalOrder:
    """Requests for a key are worked on in the order in which they arrived.

    A producer sends several requests before the first is answered. Where a partition must be opened
    first, later requests for it must not overtake. A request joins all its queues at once, without
    awaiting, so two requests can never wait for each other. A key without a queue costs nothing.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}

    def busy(self, keys: Iterable[str]) -> bool:
        """Whether a new request would have to wait."""
        return any(key in self._last for key in keys)

    def enter(self, keys: Iterable[str]) -> Ticket:
        return Ticket(self._last, keys)


class PartitionServer:
    """Leads the partitions of topics in the buckets that this node owns: see
    `runtime.ownership.UnitServer`."""

    def __init__(self, partitions: Partitions, appends: Appends) -> None:
        self._partitions = partitions
        self._appends = appends

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Nothing is read: a partition is opened when it is used for the first time."""

    async def give_up(self, unit: Unit) -> None:
        """What was accepted becomes durable and is answered; readers that wait are told to look for
        the leader."""
        await self._appends.settled()
        await self._partitions.forget(unit)

    def drop(self, unit: Unit) -> None:
        self._partitions.drop_unit(unit)
