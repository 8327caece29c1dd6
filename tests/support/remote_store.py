"""A store behind the channel of a worker, both ends in one process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from groupd.coordinator.workers.channel import Answer, Channel, Serve
from groupd.coordinator.workers.log_service import LogService
from groupd.coordinator.workers.messages import WorkerOperation, decode_question, encoded
from groupd.coordinator.workers.remote import RemoteLogs
from groupd.storage.log import Append, Store


class Everything:
    """A container that has every name in it."""

    def __contains__(self, name: object) -> bool:
        return True


async def connect(left: Channel, right: Channel) -> None:
    """Connects the two over a real socket pair."""
    loop = asyncio.get_running_loop()
    for channel, end in zip((left, right), socket.socketpair(), strict=True):
        await loop.create_unix_connection(lambda channel=channel: channel, sock=end)


async def channel_pair(serve_left: Serve, serve_right: Serve) -> tuple[Channel, Channel]:
    left, right = Channel(serve_left), Channel(serve_right)
    await connect(left, right)
    return left, right


def nothing(operation: WorkerOperation, body: bytes) -> Answer:
    raise AssertionError(f"{operation.name} was not expected")


class RemoteStore:
    """A `storage.log.Store` whose logs are `RemoteLogs`; the catalogue is asked directly, for
    workers never see it."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._logs: RemoteLogs
        self._ends: tuple[Channel, Channel]

    async def start(self) -> None:
        await self._inner.start()
        service = LogService(self._inner, self._append, Everything())
        self._ends = await channel_pair(
            lambda operation, body: encoded(
                service.operations[operation](decode_question(operation, body))
            ),
            nothing,
        )
        self._logs = RemoteLogs(self._ends[1])

    def _append(self, batches: Sequence[Append]) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._inner.append(batches))

    async def close(self) -> None:
        for end in self._ends:
            end.close()
            await end.lost.wait()
        await self._inner.close()

    def __getattr__(self, name: str) -> Any:
        logs = self.__dict__.get("_logs")
        return getattr(logs if hasattr(logs, name) else self._inner, name)
