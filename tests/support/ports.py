"""Ports for servers that are restarted, or that cannot be asked for any free one."""

from __future__ import annotations

import os
import random
import socket
from contextlib import ExitStack

PORTS = (11_000, 32_000)
_WORKERS = 10
"""The ports are shared out among this many processes of pytest-xdist. Otherwise two processes could
find the same port free at the same moment, and both would use it."""


def free_ports(host: str, count: int) -> int:
    """The first of so many ports in a row that nobody listens on now. They are not among those that
    the system gives to outgoing connections (from 32768 on with Linux): such a connection could
    take one before it is bound, or while a daemon is restarted. Even a client that tries to connect
    to that very port could."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    share = (PORTS[1] - PORTS[0]) // _WORKERS
    start = PORTS[0] + worker * share
    while True:
        first = random.randrange(start, start + share - count)
        with ExitStack() as probes:
            try:
                for number in range(count):
                    probes.enter_context(socket.socket()).bind((host, first + number))
            except OSError:
                continue
            return first
