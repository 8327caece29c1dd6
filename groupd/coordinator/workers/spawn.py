"""Starting the process of a worker, with its end of the channel and its listening socket."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from typing import Protocol

from groupd.coordinator.workers.channel import Channel

_SOCKET_BUFFER_BYTES = 1024 * 1024
"""Rows of a load and batches of a commit go through in a few pieces."""


class WorkerProcess(Protocol):
    """A worker that was started."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None:
        """Kill the process at once; it may have ended already."""
        ...

    async def wait(self) -> int:
        """The exit code of the process, negative after a signal."""
        ...


class Spawn(Protocol):
    async def __call__(self, node_id: int, bound: socket.socket, channel: Channel) -> WorkerProcess:
        """Start a worker and connect `channel` to it. Raises OSError."""
        ...


class _Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> int:
        return await self._process.wait()


def module_path() -> str:
    """The path of modules of this process, as PYTHONPATH for another one."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


async def spawn_process(node_id: int, bound: socket.socket, channel: Channel) -> WorkerProcess:
    """A `Spawn`: the same interpreter with the same path of modules. Its log goes where ours
    goes."""
    ours, theirs = socket.socketpair()
    try:
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        fds = theirs.fileno(), bound.fileno()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "groupd.coordinator.workers"),
            *(str(number) for number in (node_id, *fds, os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": module_path()},
            pass_fds=fds,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    started = _Process(process)
    try:
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: channel, sock=ours)
    except BaseException:
        started.kill()
        raise
    return started
