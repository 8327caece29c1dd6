"""How requests append to partitions: in the order of their arrival, and all batches of a request in
one call of the store. An append that fails closes its partitions, and their next user opens them
again from the store. An append goes on when its client disconnects. Before partitions are given up,
`PartitionServer` waits for the appends under way.
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
    """All appends of the data plane that are on their way into the store."""

    def __init__(self, partitions: Partitions, writer: AppendWriter) -> None:
        self._partitions = partitions
        self._writer = writer
        self._tasks: set[asyncio.Task[ApiError | None]] = set()

    def start(self, staged: Sequence[Staged]) -> asyncio.Task[ApiError | None]:
        """Start an append. The result of the task is None once all is durable and readable, else
        the error for the client: as far as is known nothing was written. Shield the task when you
        await it."""
        task = asyncio.create_task(self._run(staged))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self) -> None:
        """Wait for the appends that are under way now."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Wait until no append is under way, those that start meanwhile included."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run(self, staged: Sequence[Staged]) -> ApiError | None:
        try:
            await self._writer([append for _, append in staged])
        except LogFenced as error:
            self._drop(staged)
            # Clients look up the leader again and retry.
            return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error))
        except LogUncertain as error:
            self._drop(staged)
            # The client must not believe that nothing was written. With another error librdkafka
            # would send the same records in other batches, which would not be recognized as
            # duplicates.
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
    """A request's place in the queues of some keys: `await wait()`, do the work, and call `leave()`
    in any case."""

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
            # The wait was cancelled. Requests behind this one must still wait for those in front of
            # it.
            asyncio.gather(*pending).add_done_callback(lambda _: self._finish())
        else:
            self._finish()

    def _finish(self) -> None:
        self._left.set_result(None)
        for key in self._keys:
            if self._last.get(key) is self._left:
                del self._last[key]


class ArrivalOrder:
    """Makes requests for the same key run in the order in which they arrived.

    A producer sends several requests before the first is answered. While a partition is being
    opened for one request, later requests for it must not overtake. A request joins all its queues
    at once, without awaiting, so two requests can never wait for each other. A key without a queue
    costs nothing.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}

    def busy(self, keys: Iterable[str]) -> bool:
        """Whether a new request would have to wait."""
        return any(key in self._last for key in keys)

    def enter(self, keys: Iterable[str]) -> Ticket:
        return Ticket(self._last, keys)


class PartitionServer:
    """Leads the partitions of topics in the buckets that this node owns. A
    `runtime.ownership.UnitServer`."""

    def __init__(self, partitions: Partitions, appends: Appends) -> None:
        self._partitions = partitions
        self._appends = appends

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Does nothing: a partition is opened when it is used for the first time."""

    async def give_up(self, unit: Unit) -> None:
        """Finish the accepted appends and answer them, then close the logs. Waiting readers are
        woken and look up the new leader."""
        await self._appends.settled()
        await self._partitions.forget(unit)

    def drop(self, unit: Unit) -> None:
        self._partitions.drop_unit(unit)
