"""Appends of staged batches: all of one request in one call, tracked until they are settled.

A failed append drops the partitions concerned: their next user reads the store. An append runs on
when its client hangs up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import Append, LogError, LogFenced

Writer = Callable[[Sequence[Append]], Awaitable[None]]
"""`PartitionLogs.append`, possibly with group commit behind it. Calls must be served in order."""

Staged = tuple[PartitionLog, Append]


class Appends:
    """Everything of the data plane that is on its way into the store."""

    def __init__(self, partitions: Partitions, writer: Writer) -> None:
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
