"""The process of a worker: `python -m groupd.coordinator.workers NODE_ID CHANNEL_FD LISTEN_FD
PARENT_PID`; the node id is there to be seen in a list of processes.

Only a main process starts it (`spawn`). Signals to the whole group of processes are the main
process's business: it stops its workers in order. If it goes away itself, so does the worker: by
the end of the channel, and by the kernel on Linux, however busy the worker is.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from socket import socket

import uvloop

from groupd.coordinator.logs import log_loop_errors
from groupd.coordinator.runtime import collector
from groupd.coordinator.runtime.allocator import give_back_large_blocks
from groupd.coordinator.runtime.thread_turns import threads_have_short_turns
from groupd.coordinator.workers.worker import Worker

EXIT_ORPHANED = 3
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Runs until the main process says so or is gone."""
    _, channel_fd, listen_fd, parent = map(int, arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _die_with(parent)
    give_back_large_blocks()
    threads_have_short_turns()
    collector.serve()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(channel_fd, listen_fd))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_ORPHANED)  # it went before the kernel was asked


async def _run(channel_fd: int, listen_fd: int) -> None:
    worker = Worker(socket(fileno=listen_fd), lambda: os._exit(EXIT_ORPHANED))
    loop = asyncio.get_running_loop()
    log_loop_errors(loop)
    await loop.create_unix_connection(lambda: worker.channel, sock=socket(fileno=channel_fd))
    await worker.channel.lost.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
